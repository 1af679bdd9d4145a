/* A pure parser of the text of /proc/PID/maps, line by line. Nothing is copied. */
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

/* The next executable mapping; all others (most lines) are skipped quickly. False at the end of the text. Malformed
 * lines are skipped. */
bool maps_next_executable(struct cursor *text, struct maps_line *ret);
/* The next mapping of any kind. */
bool maps_next(struct cursor *text, struct maps_line *ret);

/* Length of the path without the " (deleted)" that the kernel appends to unlinked names. */
size_t maps_path_without_deleted(const char *path, size_t bytes);
