/* Tables of unwinding rows by object, for walks in user space: a bounded cache of what cfi_build says of a
 * file. The publisher puts in what it has built for the kernel anyway; what is missing is built on the spot,
 * so that emptying the cache changes no stack. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/object/objects.h"
#include "resolve/unwind/cfi.h"

#include <stddef.h>
#include <stdint.h>

struct unwind_cache;

/* Holds `max_bytes` of tables, or the one last asked for if that is larger. */
int unwind_cache_new(size_t max_bytes, struct unwind_cache **ret);
/* How many objects are remembered at most; more than it would by itself are not. */
void unwind_cache_limit(struct unwind_cache *c, size_t entries);
void unwind_cache_free(struct unwind_cache *c);
DEFINE_FREEP(unwind_cache)

/* From now on tables of files with more than `input_bytes` of call frame information are not built on the
 * spot, because somebody else builds them and puts them in: unwind_cache_get says -EAGAIN meanwhile. */
void unwind_cache_defer_above(struct unwind_cache *c, uint64_t input_bytes);

/* The object's table, borrowed until the next call. -ENOENT: it has no rules, now or later (walk by frame
 * pointer); another error: its file cannot be read at present. */
int unwind_cache_get(struct unwind_cache *c, const struct object *o, const struct unwind_table **ret);

/* The rule at one place of an object: by its table, or, while somebody else builds that, by the file itself.
 * -ENOENT: it has no rules; another error: cannot be told at present. */
int unwind_cache_find(struct unwind_cache *c, const struct object *o, uint32_t file_offset, struct unwind_rule *ret);

/* What is known of an object, without building anything. */
enum unwind_cache_state {
    UNWIND_CACHE_UNKNOWN, /* no walk came by it lately */
    UNWIND_CACHE_READY,
    UNWIND_CACHE_NO_RULES,
    UNWIND_CACHE_DEFERRED, /* a walk needs it, and somebody else is to build it */
};
enum unwind_cache_state unwind_cache_look(struct unwind_cache *c, uint64_t object_id, const struct unwind_table **ret);

/* Grows whenever any object's state may have changed. */
uint64_t unwind_cache_generation(const struct unwind_cache *c);

/* Remembers what was built elsewhere: takes `table`, which is NULL for an object without rules. */
void unwind_cache_put(struct unwind_cache *c, uint64_t object_id, struct unwind_table *table);

/* Forgets everything. */
void unwind_cache_trim(struct unwind_cache *c);
size_t unwind_cache_bytes(const struct unwind_cache *c);
void unwind_cache_metrics(const struct unwind_cache *c, struct metric_set *set);
