/* Parses mountinfo; see mounts.h:
 *
 *     36 35 98:0 /mnt1 /mnt/2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
 *
 * ID, parent, device, root, mount point, options of the mount, any number of tags, a dash, then type, source and
 * options of the file system. */
#include "base/mounts.h"

#include <stdlib.h>
#include <string.h>

/* The field at `*at`, which is advanced past it and its blank. */
static struct mounts_text take_field(const char **at, const char *end)
{
    const char *blank = memchr(*at, ' ', (size_t)(end - *at));
    struct mounts_text field = {.at = *at, .size = (size_t)((blank ? blank : end) - *at)};
    *at = blank ? blank + 1 : end;
    return field;
}

static bool parse(const char *at, const char *end, struct mount *ret)
{
    static const char dash[] = " - ";
    struct mount m = {.id = strtoull(at, NULL, 10)};
    const char *rest = memmem(at, (size_t)(end - at), dash, sizeof(dash) - 1);
    if (!rest || m.id == 0)
        return false;
    for (int before_point = 0; before_point < 4; before_point++)
        take_field(&at, rest);
    m.point = take_field(&at, rest);
    rest += sizeof(dash) - 1;
    m.type = take_field(&rest, end);
    take_field(&rest, end);
    m.options = take_field(&rest, end);
    *ret = m;
    return m.point.size > 0;
}

bool mounts_next(const char **text, struct mount *ret)
{
    while (**text) {
        const char *line = *text, *end = strchrnul(line, '\n');
        *text = *end ? end + 1 : end;
        if (parse(line, end, ret))
            return true;
    }
    return false;
}

bool mounts_text_is(const struct mounts_text *text, const char *wanted)
{
    return strlen(wanted) == text->size && memcmp(text->at, wanted, text->size) == 0;
}

bool mounts_has_option(const struct mount *mount, const char *word)
{
    const char *at = mount->options.at, *end = at + mount->options.size;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        struct mounts_text option = {.at = at, .size = (size_t)((comma ? comma : end) - at)};
        if (mounts_text_is(&option, word))
            return true;
        at += option.size + 1;
    }
    return false;
}

/* The byte that three octal digits encode, or -1. */
static int octal(const char *at)
{
    int value = 0;
    for (int i = 0; i < 3; i++) {
        if (at[i] < '0' || at[i] > '7')
            return -1;
        value = value * 8 + (at[i] - '0');
    }
    return value;
}

/* The length of the prefix of `path` that the mount point covers; 0: the path does not lie below it. */
static size_t covered(const struct mounts_text *point, const char *path)
{
    size_t n = 0;
    for (size_t i = 0; i < point->size; n++) {
        char c = point->at[i++];
        if (c == '\\' && point->size - i >= 3 && octal(point->at + i) >= 0) {
            c = (char)octal(point->at + i);
            i += 3;
        }
        if (path[n] == '\0' || path[n] != c) /* "\000" is never written by the kernel, but the input may contain it */
            return 0;
    }
    return n == 1 || path[n] == '/' || path[n] == '\0' ? n : 0;
}

uint64_t mounts_find(const char *text, const char *path)
{
    struct mount m;
    uint64_t id = 0;
    size_t best = 1;
    while (mounts_next(&text, &m)) {
        size_t n = covered(&m.point, path);
        if (n < best) /* of several mounts at one place the last one is on top */
            continue;
        best = n;
        id = m.id;
    }
    return id;
}
