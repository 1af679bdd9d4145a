/* Builds the unwind tables of large files on a thread of its own: takes descriptors, returns tables, both in bounded
 * queues. All functions are for the pipeline thread. */
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

/* Returns one finished table, or its error: `ret_error` as of cfi_build. The caller owns the table. False: none is
 * finished. */
bool unwind_builder_take(struct unwind_builder *b, uint64_t *ret_object_id, struct unwind_table **ret_table,
                         int *ret_error);

struct unwind_builder_stats {
    uint64_t built, failed, dropped;
    uint64_t build_ns;
    size_t queued;
};
void unwind_builder_stats(struct unwind_builder *b, struct unwind_builder_stats *ret);
