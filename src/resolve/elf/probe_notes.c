/* Parses notes of USDT probes; see probe_notes.h. A note has three sizes, its owner's name and its contents, the
 * latter two padded to four bytes. The contents are described by sys/sdt.h (SystemTap) and by lib/probe/image.c. */
#include "resolve/elf/probe_notes.h"

#include <string.h>

#define TYPE_STAPSDT 3
#define TYPE_SONDE   0x50

static const void *take_padded(struct cursor *c, size_t size)
{
    const void *bytes = cursor_bytes(c, size);
    const size_t padding = -c->position & 3, left = cursor_left(c);
    cursor_skip(c, padding < left ? padding : left); /* the last note's padding may be missing */
    return bytes;
}

static bool is_owner(const char *name, size_t size, const char *owner)
{
    return size == strlen(owner) + 1 && memcmp(name, owner, size) == 0;
}

static bool parse_contents(struct cursor contents, enum probe_note_kind kind, struct probe_note *ret)
{
    struct probe_note note = {.kind = kind};
    if (kind == PROBE_NOTE_SITE) {
        note.site = cursor_u64(&contents);
        note.base = cursor_u64(&contents);
        note.semaphore = cursor_u64(&contents);
    }
    note.provider = cursor_string(&contents);
    note.name = cursor_string(&contents);
    note.arguments = cursor_string(&contents);
    if (contents.failed || !note.provider[0] || !note.name[0])
        return false;
    *ret = note;
    return true;
}

bool probe_notes_next(struct cursor *section, struct probe_note *ret, uint64_t *damaged)
{
    while (cursor_left(section) > 0) {
        const uint32_t owner_size = cursor_u32(section), size = cursor_u32(section), type = cursor_u32(section);
        const char *owner = take_padded(section, owner_size);
        const void *contents = take_padded(section, size);
        if (section->failed) {
            ++*damaged;
            return false;
        }
        const bool is_site = type == TYPE_STAPSDT && is_owner(owner, owner_size, "stapsdt");
        if (!is_site && (type != TYPE_SONDE || !is_owner(owner, owner_size, "sonde")))
            continue;
        if (parse_contents(cursor_make(contents, size), is_site ? PROBE_NOTE_SITE : PROBE_NOTE_DECLARATION, ret))
            return true;
        ++*damaged;
    }
    return false;
}
