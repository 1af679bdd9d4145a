/* Paths of mapped files and programs, interned: one reference-counted copy per path, held by the mappings and images
 * (image.h) that use it.
 * A path belongs to the mapping, not to the file: copies of one file share everything known about its contents
 * (object.h), but each process keeps the path that it mapped. Pipeline thread only. */
#pragma once

#include <stddef.h>

struct path_entry;

struct paths {
    struct path_entry *by_text;
    size_t bytes;
};

/* A reference to the interned copy; NULL: out of memory. */
const char *paths_get(struct paths *p, const char *text);

/* For texts of paths_get, and NULL. Equal texts of one table have the same address while any reference is held. Every
 * reference is released once, before the table goes; the last one frees the text. */
const char *path_retain(const char *text);
void path_release(const char *text);
