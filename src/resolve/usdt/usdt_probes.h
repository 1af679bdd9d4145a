/* The USDT probes of one ELF file, from its notes (probe_notes.h), bounded. Immutable once read. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <stddef.h>
#include <stdint.h>

/* One site in the code; a probe in inlined code has several. Addresses are addresses in the file. */
struct usdt_site {
    const char *provider, *name;
    const char *operands;    /* "8@%rdi -4@%rsi" */
    const char *declaration; /* "str model, i32 n"; NULL: the file has none */
    uint64_t vaddr, file_offset;
    uint64_t semaphore_vaddr,
        semaphore_offset; /* 0: none; the offset is also 0 where the semaphore is not in the file */
    uint8_t code;         /* the original byte at the site, while nothing is attached */
};

struct usdt_probes {
    struct usdt_site *sites; /* sorted by provider, name and the order of notes: the sites of a probe are adjacent */
    size_t count;
    uint64_t damaged;  /* malformed notes */
    uint64_t left_out; /* sites past the bound */
    void *texts[2];    /* the sections, which hold all strings */
};

/* Returns 0 and probes that the caller frees; a file without notes has none. -ETIMEDOUT when the file does not
 * respond, -ENOMEM, -ENOEXEC or -EFBIG when the notes cannot be read. */
int usdt_probes_read(const struct elf_file *f, struct usdt_probes **ret);
/* The same of the file that `fd` is open at, which is closed. Also -errno where it is no ELF file. */
int usdt_probes_read_file(int fd, struct usdt_probes **ret);
void usdt_probes_free(struct usdt_probes *p);
DEFINE_FREEP(usdt_probes)

/* Number of sites from index `first` on that belong to the same probe. */
size_t usdt_probes_run(const struct usdt_probes *p, size_t first);
