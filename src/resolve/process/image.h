/* What a process runs: its executable and where code is mapped. Shared by a process and its forks until one
 * of them changes, so that a fork costs nothing. Not thread-safe. */
#pragma once

#include "resolve/object/objects_table.h"
#include "resolve/process/processes.h"

#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAPPINGS_MAX 8192

struct image {
    unsigned references;
    unsigned live;                    /* processes that use it and have not exited */
    bool full;                        /* mappings were left out: more than IMAGE_MAPPINGS_MAX */
    char *executable;                 /* NULL: as the first mapping's object says; "" is unknown */
    struct process_mapping *mappings; /* sorted by start, disjoint */
    size_t count, capacity;
};

struct image *image_new(void);
struct image *image_ref(struct image *image);
void image_unref(struct image *image);

/* An image for one holder alone, with the same contents; takes the reference that the caller had. NULL: out
 * of memory, and the reference is kept. `was_live`: the holder counts among the live ones. */
struct image *image_own(struct image *image, bool was_live);

/* Counts one more (+1) or less (-1) live process. */
void image_live(struct image *image, int change);

/* Maps over whatever was there; takes the holds of mapping->object and ->path, always. */
int image_map(struct image *image, const struct process_mapping *mapping);

size_t image_bytes(const struct image *image);
