/* The text of /proc/PID/maps, line by line: a pure parser of what the kernel writes. Nothing is copied. */
#pragma once

#include "base/cursor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct maps_line {
    uint64_t start, end, file_offset, inode;
    uint32_t device_major, device_minor;
    bool executable;
    const char *path; /* not NUL-terminated; borrowed from the text */
    size_t path_bytes;
};

/* The next mapping that is executable (all others are skipped over quickly: they are most lines). False at
 * the end of the text. Lines that make no sense are left out. */
bool maps_next_executable(struct cursor *text, struct maps_line *ret);
/* The next mapping of any kind. */
bool maps_next(struct cursor *text, struct maps_line *ret);

/* A path as the kernel prints it, without the " (deleted)" that it adds to names that are gone. Returns the
 * length that is left. */
size_t maps_path_without_deleted(const char *path, size_t bytes);
