/* The native probes of one ELF file, by its notes (probe_notes.h), bounded. Immutable once made. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <stddef.h>
#include <stdint.h>

/* One place in the code; a probe that stands in inlined code has several. Addresses are the file's. */
struct native_site {
    const char *provider, *name;
    const char *operands;                         /* "8@%rdi -4@%rsi" */
    const char *declaration;                      /* "str model, i32 n"; NULL: the file does not tell */
    uint64_t vaddr, file_offset;
    uint64_t semaphore_vaddr, semaphore_offset; /* 0: none; the offset also where it is not in the file */
    uint8_t code;                                 /* the byte there, while nobody is attached */
};

struct native_probes {
    struct native_site *sites; /* by provider, name and the order of notes: those of a probe stand together */
    size_t count;
    uint64_t damaged;  /* notes that make no sense */
    uint64_t left_out; /* sites past the bound */
    void *texts[2];    /* the sections, which hold all texts */
};

/* -ETIMEDOUT when the file does not answer, -ENOMEM, -ENOEXEC or -EFBIG when the notes cannot be read. A file
 * without notes has no probes. */
int native_probes_read(const struct elf_file *f, struct native_probes **ret);
void native_probes_free(struct native_probes *p);
DEFINE_FREEP(native_probes)

/* How many sites from `first` on are of its probe. */
size_t native_probes_run(const struct native_probes *p, size_t first);
