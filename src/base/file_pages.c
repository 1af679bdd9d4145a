/* See file_pages.h. */
#include "base/file_pages.h"

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define SMAPS_MAX_BYTES (4 << 20)

struct mapping {
    uintptr_t start, end;
    bool is_read_only_file;
};

/* The first line of a mapping: "7f00-7f80 r-xp 00000000 fe:00 42   /usr/lib/libc.so.6". False: another line. */
static bool parse_mapping(const char *line, struct mapping *ret)
{
    unsigned long start, end;
    char permissions[8];
    int path_at = 0;
    if (sscanf(line, "%lx-%lx %7s %*x %*s %*u %n", &start, &end, permissions, &path_at) != 3 || !path_at)
        return false;
    *ret = (struct mapping){
        start, end, line[path_at] == '/' && permissions[0] == 'r' && permissions[1] == '-' && permissions[3] == 'p'};
    return true;
}

size_t file_pages_release(void)
{
    _cleanup_buf_ struct buf text = {0};
    struct mapping mapping = {0};
    size_t released = 0;
    if (buf_read_file(&text, "/proc/self/smaps", SMAPS_MAX_BYTES) < 0 || !text.data)
        return 0;
    for (char *line = text.data, *next; line && *line; line = next) {
        unsigned long own_kib;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (parse_mapping(line, &mapping) || sscanf(line, "Anonymous: %lu kB", &own_kib) != 1)
            continue;
        /* Pages of its own are relocated pointers, which the file does not have. */
        if (mapping.is_read_only_file && own_kib == 0 &&
            madvise((void *)mapping.start, mapping.end - mapping.start, MADV_DONTNEED) == 0)
            released += mapping.end - mapping.start;
    }
    return released;
}
