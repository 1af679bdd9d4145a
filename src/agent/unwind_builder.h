/* The thread that builds unwinding tables of large files, off the pipeline's thread: descriptors in, tables
 * out, both in bounded queues. All functions are the pipeline thread's; the builder's own thread shows
 * nothing of itself. */
#pragma once

#include "base/cleanup.h"
#include "resolve/unwind/cfi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unwind_builder;

int unwind_builder_new(struct unwind_builder **ret);
void unwind_builder_free(struct unwind_builder *b);
DEFINE_FREEP(unwind_builder)

/* Takes `fd` in every case. False: the queue is full (counted). */
bool unwind_builder_add(struct unwind_builder *b, uint64_t object_id, int fd);

/* One finished table, or why there is none: `ret_error` as of cfi_build. False: nothing is finished. */
bool unwind_builder_take(struct unwind_builder *b, uint64_t *ret_object_id, struct unwind_table **ret_table,
                         int *ret_error);

struct unwind_builder_stats {
    uint64_t built, failed, dropped;
    uint64_t build_ns;
    size_t queued;
};
void unwind_builder_stats(struct unwind_builder *b, struct unwind_builder_stats *ret);
