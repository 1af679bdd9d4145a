/* Tables of unwinding rows by object, for walks in user space: a bounded cache of what cfi_build says of a
 * file. The publisher puts in what it has built for the kernel anyway; what is missing is built on the spot,
 * so that emptying the cache changes no stack. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/cfi.h"
#include "resolve/objects.h"

#include <stddef.h>
#include <stdint.h>

struct unwind_cache;

/* Holds `max_bytes` of tables, or the one last asked for if that is larger. */
int unwind_cache_new(size_t max_bytes, struct unwind_cache **ret);
void unwind_cache_free(struct unwind_cache *c);
DEFINE_FREEP(unwind_cache)

/* The object's table, borrowed until the next call. -ENOENT: it has no rules, now or later (walk by frame
 * pointer); another error: its file cannot be read at present. */
int unwind_cache_get(struct unwind_cache *c, const struct object *o, const struct unwind_table **ret);

/* The same, but only if it is known already: -EAGAIN when not. */
int unwind_cache_peek(struct unwind_cache *c, uint64_t object_id, const struct unwind_table **ret);

/* Remembers what was built elsewhere: takes `table`, which is NULL for an object without rules. */
void unwind_cache_put(struct unwind_cache *c, uint64_t object_id, struct unwind_table *table);

/* Forgets everything. */
void unwind_cache_trim(struct unwind_cache *c);
size_t unwind_cache_bytes(const struct unwind_cache *c);
void unwind_cache_metrics(const struct unwind_cache *c, struct metric_set *set);
