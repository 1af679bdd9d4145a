/* Groups records of Triton traces by id. The format does not mark the last record of an id, and records of several ids
 * may be interleaved. So the most recently used ids stay open; when there are too many, the least recently used one is
 * returned. Triton and libsonde write all records of a request consecutively, so few open ids suffice.
 *
 * Losses due to the bounds are counted: records of an id that was returned already (`late`), and children whose parent
 * is no longer known (`orphans`), whose frontend is then unknown. */
#pragma once

#include "base/cleanup.h"
#include "base/strings.h"
#include "trace/model/triton_trace.h"

#define TRACE_TABLE_OPEN        4096        /* ids */
#define TRACE_TABLE_CLOSED      (1u << 17)  /* returned ids that are remembered for their children */
#define TRACE_TABLE_BYTES       (64u << 20) /* of open ids: tensors, request ids, timestamps beyond the usual number */
#define TRACE_TABLE_MOMENTS_MAX 65536       /* per id */
#define TRACE_TABLE_DEPTH       64          /* nesting of children */

struct trace_table;

struct trace_table_losses {
    uint64_t late;    /* records of an id that was returned already */
    uint64_t orphans; /* traces whose parent is unknown */
    uint64_t moments; /* beyond TRACE_TABLE_MOMENTS_MAX */
};

/* Creates a table. One per file, because a restarted server restarts its ids. At most `open` ids are kept open (0:
 * TRACE_TABLE_OPEN). Model names and custom event names are added to `names`, which is borrowed. Tensors are kept
 * only if `with_tensors`. */
int trace_table_new(struct strings *names, size_t open, bool with_tensors, struct trace_table **ret);
void trace_table_free(struct trace_table *t);
DEFINE_FREEP(trace_table)

/* Adds a copy of the record. -ENOMEM; -ENOBUFS: call trace_table_take first. */
int trace_table_add(struct trace_table *t, const struct triton_record *record);

/* Returns a trace that is presumably complete, valid until the next call of a function of this table; NULL: none. Call
 * it after every record, and with `drain` at the end of the records until NULL. */
const struct triton_trace *trace_table_take(struct trace_table *t, bool drain);

/* The parent of an id that is still open; false: unknown, or it has none. */
bool trace_table_parent(const struct trace_table *t, uint64_t id, uint64_t *ret_parent);

/* The root request of an id as far as known; false: the id is unknown or was forgotten. */
bool trace_table_root(const struct trace_table *t, uint64_t id, uint64_t *ret_root);

const struct trace_table_losses *trace_table_losses(const struct trace_table *t);
