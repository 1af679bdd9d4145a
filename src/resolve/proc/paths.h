/* Paths of mapped files, each kept once however many processes map it: one text a path, held by the mappings
 * (image.h) that have it. A path belongs to the mapping, not to the file: copies of one file share all that
 * is known of its contents (objects.h), but each process runs the one that it names. Pipeline thread only. */
#pragma once

#include <stddef.h>

struct path_entry;

struct paths {
    struct path_entry *by_text;
    size_t bytes;
};

/* The text as it is kept, held for the caller; NULL: out of memory. */
const char *paths_get(struct paths *p, const char *text);

/* For texts of paths_get, and NULL. The last one that lets go frees it. */
const char *path_retain(const char *text);
void path_release(const char *text);
