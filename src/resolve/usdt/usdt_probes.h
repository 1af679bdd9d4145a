/* The native probes of one ELF file, by its notes (probe_notes.h), bounded. Immutable once made. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <stddef.h>
#include <stdint.h>

/* One place in the code; a probe that stands in inlined code has several. Addresses are the file's. */
struct usdt_site {
    const char *provider, *name;
    const char *operands;    /* "8@%rdi -4@%rsi" */
    const char *declaration; /* "str model, i32 n"; NULL: the file does not tell */
    uint64_t vaddr, file_offset;
    uint64_t semaphore_vaddr, semaphore_offset; /* 0: none; the offset also where it is not in the file */
    uint8_t code;                               /* the byte there, while nobody is attached */
};

struct usdt_probes {
    struct usdt_site *sites; /* by provider, name and the order of notes: those of a probe stand together */
    size_t count;
    uint64_t damaged;  /* notes that make no sense */
    uint64_t left_out; /* sites past the bound */
    void *texts[2];    /* the sections, which hold all texts */
};

/* -ETIMEDOUT when the file does not answer, -ENOMEM, -ENOEXEC or -EFBIG when the notes cannot be read. A file
 * without notes has no probes. */
int usdt_probes_read(const struct elf_file *f, struct usdt_probes **ret);
void usdt_probes_free(struct usdt_probes *p);
DEFINE_FREEP(usdt_probes)

/* How many sites from `first` on are of its probe. */
size_t usdt_probes_run(const struct usdt_probes *p, size_t first);
