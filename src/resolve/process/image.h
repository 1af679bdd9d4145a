/* The code that a process runs: its executable and its executable mappings. A process and its forks share one image
 * until one of them changes it (copy on write), so a fork costs nothing. Not thread-safe. */
#pragma once

#include "resolve/object/objects.h"
#include "resolve/process/process.h"

#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAPPINGS_MAX 8192

struct image {
    unsigned references;
    unsigned live;                    /* processes that use it and have not exited */
    bool full;                        /* mappings were left out: more than IMAGE_MAPPINGS_MAX */
    const char *executable;           /* interned (paths.h), a reference; NULL: unknown */
    struct process_mapping *mappings; /* sorted by start, disjoint */
    size_t count, capacity;
};

/* An empty image with one reference, the caller's; NULL: out of memory. */
struct image *image_new(void);
/* Returns `image`; accept NULL. Every reference is released once; the last one frees the image. */
struct image *image_ref(struct image *image);
void image_unref(struct image *image);

/* Returns an unshared image with the same contents, and takes the caller's reference. NULL: out of memory; the
 * caller keeps its reference. `was_live`: the holder counts among the running processes. */
struct image *image_own(struct image *image, bool was_live);

/* Adjusts the number of running processes by +1 or -1; it must not become negative. Accepts NULL. */
void image_live(struct image *image, int change);

/* Adds a mapping, replacing whatever was mapped there. Always takes the references mapping->object and ->path.
 * -ENOSPC, -ENOMEM or -EINVAL: the mapping was not added. */
int image_map(struct image *image, const struct process_mapping *mapping);

/* Memory that the image holds, without shared objects and paths. */
size_t image_bytes(const struct image *image);
