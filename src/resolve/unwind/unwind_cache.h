/* Cache of unwind tables by object, for walks in user space: the bounded results of cfi_build. A missing table is built
 * on demand, so that emptying the cache changes no stack. Beside a publisher, only small tables are built here: until
 * the publisher has built a larger one for the BPF side, and afterwards, its rules are looked up in the file one by
 * one. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/object/object.h"
#include "resolve/unwind/cfi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unwind_cache;

/* Holds at most `max_bytes` of tables, or the most recent one if that is larger. -ENOMEM. */
int unwind_cache_new(size_t max_bytes, struct unwind_cache **ret);
/* Changes `max_bytes`; takes effect with the next table. */
void unwind_cache_set_max_bytes(struct unwind_cache *c, size_t max_bytes);
/* Limits the number of objects; a limit above the default has no effect. */
void unwind_cache_limit(struct unwind_cache *c, size_t entries);
void unwind_cache_free(struct unwind_cache *c);
DEFINE_FREEP(unwind_cache)

/* Tables of files with more than `input_bytes` of call frame information are no longer built on demand, because the
 * publisher builds them: unwind_cache_get returns -EAGAIN. */
void unwind_cache_defer_above(struct unwind_cache *c, uint64_t input_bytes);

/* The object's table, borrowed until the next call. -ENOENT: the object has no rules (walk by frame pointer), now or
 * later. -EAGAIN: deferred. Another error: its file cannot be read at present. */
int unwind_cache_get(struct unwind_cache *c, const struct object *o, const struct unwind_table **ret);

/* Copies the rule at a file offset of an object, from its table, or from the file itself if the table is deferred.
 * -ENOENT: there is no rule; another error: the rule cannot be determined at present. */
int unwind_cache_find(struct unwind_cache *c, const struct object *o, uint32_t file_offset, struct unwind_rule *ret);

/* State of an object; querying it builds nothing. */
enum unwind_cache_state {
    UNWIND_CACHE_UNKNOWN, /* not in the cache: no recent walk needed it */
    UNWIND_CACHE_READY,
    UNWIND_CACHE_NO_RULES,
    UNWIND_CACHE_DEFERRED, /* a walk needs the table, and the publisher is to build it */
};
/* `*ret` is set if the state is UNWIND_CACHE_READY; borrowed until the next call. Counts as a use of the entry. */
enum unwind_cache_state unwind_cache_look(struct unwind_cache *c, uint64_t object_id, const struct unwind_table **ret);

/* How much walks in user space need a deferred table, and how much work it would be. */
struct unwind_demand {
    uint64_t lookups;     /* of single rules, since the last unwind_cache_published */
    uint64_t input_bytes; /* of call frame information (cfi_input_bytes) */
};
/* False: the object's table is not deferred. Does not count as a use of the entry. */
bool unwind_cache_demand(const struct unwind_cache *c, uint64_t object_id, struct unwind_demand *ret);

/* Incremented whenever the state of any object may have changed. */
uint64_t unwind_cache_generation(const struct unwind_cache *c);

/* Adds a table built by the publisher; takes ownership of `table`. NULL: the object has no rules. */
void unwind_cache_put(struct unwind_cache *c, uint64_t object_id, struct unwind_table *table);

/* The BPF side has the table of this object: it is released, if single rules can be looked up in the file instead. */
void unwind_cache_published(struct unwind_cache *c, uint64_t object_id);

/* Releases tables, open files and rules. The demand for deferred tables is kept. */
void unwind_cache_trim(struct unwind_cache *c);
/* Closes the object's file; a lookup of a single rule opens it again. */
void unwind_cache_close(struct unwind_cache *c, uint64_t object_id);
/* Memory in use. */
size_t unwind_cache_bytes(const struct unwind_cache *c);
void unwind_cache_metrics(const struct unwind_cache *c, struct metric_set *set);
