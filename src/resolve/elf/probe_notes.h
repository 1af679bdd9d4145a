/* The notes by which an ELF file tells of its native probes: those of .note.stapsdt, which all consumers
 * know, and those of .note.sonde, by which libsonde adds names and types of arguments (lib/probe/image.c). A
 * pure parser of a section's bytes, whoever wrote them. */
#pragma once

#include "base/cursor.h"

enum probe_note_kind { PROBE_NOTE_SITE, PROBE_NOTE_DECLARATION };

struct probe_note {
    enum probe_note_kind kind;
    const char *provider, *name; /* borrowed from the section, like all texts here */
    const char *arguments;       /* of a site "8@%rdi -4@%rsi", of a declaration "str model, i32 n" */
    /* Of a site, as addresses in the file; `base` is where .stapsdt.base was when they were written. */
    uint64_t site, base, semaphore; /* semaphore 0: none */
};

/* The next note that tells of a probe; false at the end. Others are passed over; those of a probe that make
 * no sense are too, and are counted in `*damaged`, as is what follows a note that leaves the section. */
bool probe_notes_next(struct cursor *section, struct probe_note *ret, uint64_t *damaged);
