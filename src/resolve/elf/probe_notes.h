/* Notes of USDT probes in an ELF file: .note.stapsdt, the standard format, and .note.sonde, where libsonde adds
 * names and types of arguments (lib/probe/image.c). A pure parser of an untrusted section. */
#pragma once

#include "base/cursor.h"

enum probe_note_kind { PROBE_NOTE_SITE, PROBE_NOTE_DECLARATION };

struct probe_note {
    enum probe_note_kind kind;
    const char *provider, *name; /* borrowed from the section, like all strings here */
    const char *arguments;       /* of a site "8@%rdi -4@%rsi", of a declaration "str model, i32 n" */
    /* Of a site, addresses in the file; `base` is the address of .stapsdt.base when the notes were written. */
    uint64_t site, base, semaphore; /* semaphore 0: none */
};

/* The next note of a probe; false at the end. Other notes are skipped. Malformed probe notes are skipped and counted
 * in `*damaged`; a note that exceeds the section is counted and ends the iteration. */
bool probe_notes_next(struct cursor *section, struct probe_note *ret, uint64_t *damaged);
