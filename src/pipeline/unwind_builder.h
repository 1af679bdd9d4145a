/* Builds unwind tables on a thread of its own: takes descriptors, returns tables, both in bounded queues. All functions
 * are for the pipeline thread. */
#pragma once

#include "base/cleanup.h"
#include "resolve/unwind/cfi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unwind_builder;

/* Starts the thread. The caller frees `*ret`. -ENOMEM, or -errno of the thread. */
int unwind_builder_new(struct unwind_builder **ret);
void unwind_builder_free(struct unwind_builder *b); /* waits for the table being built */
DEFINE_FREEP(unwind_builder)

/* Queues a file. Takes ownership of `fd` in every case. False: the queue is full (counted). */
bool unwind_builder_add(struct unwind_builder *b, uint64_t object_id, int fd);

struct unwind_built {
    uint64_t object_id;
    struct unwind_table *table; /* NULL: error */
    int error;                  /* as of cfi_build */
    uint64_t cpu_ns;            /* CPU time of the build */
};

/* Returns one finished table, or its error. The caller owns the table. False: none is finished. */
bool unwind_builder_take(struct unwind_builder *b, struct unwind_built *ret);

struct unwind_builder_stats {
    uint64_t built, failed, dropped;
    uint64_t build_ns; /* CPU time */
    size_t queued;
};
void unwind_builder_stats(struct unwind_builder *b, struct unwind_builder_stats *ret);
