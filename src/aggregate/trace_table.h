/* Puts records of Triton's traces together by id. Nothing in the format says that an id is complete, and records of
 * several ids may stand mixed, so the last ids that were touched are kept open; the one that was not touched for
 * longest is handed on when there are too many. Triton and libsonde write all records of a request one after the other,
 * which needs a few.
 *
 * What bounded memory gives up is counted: records of an id that was handed on already (`late`), and children whose
 * parent is not among the last ids (`orphans`), of which it is then not known through which door they came. */
#pragma once

#include "base/cleanup.h"
#include "base/strings.h"
#include "model/triton_trace.h"

#define TRACE_TABLE_OPEN        4096        /* ids */
#define TRACE_TABLE_CLOSED      (1u << 17)  /* ids handed on that are remembered, for their children */
#define TRACE_TABLE_BYTES       (64u << 20) /* of open ids: tensors, request ids, moments beyond the usual */
#define TRACE_TABLE_MOMENTS_MAX 65536       /* of one id */
#define TRACE_TABLE_DEPTH       64          /* of children of children */

struct trace_table;

struct trace_table_losses {
    uint64_t late;    /* records of an id that was handed on before */
    uint64_t orphans; /* traces whose parent is not known */
    uint64_t moments; /* beyond the bound of one id */
};

/* One for each file, for a server that is started anew counts its ids anew. At most `open` ids are kept open (0:
 * TRACE_TABLE_OPEN). Names of models and of their own events go into `names`, borrowed. Tensors are kept only where
 * `with_tensors`. */
int trace_table_new(struct strings *names, size_t open, bool with_tensors, struct trace_table **ret);
void trace_table_free(struct trace_table *t);
DEFINE_FREEP(trace_table)

/* -ENOMEM, or -ENOBUFS when what was there to take was not taken; the record is copied. */
int trace_table_add(struct trace_table *t, const struct triton_record *record);

/* A trace that is complete as far as can be told, good until the next call of any of these; NULL: none. To be asked
 * after every record; `drain`: at the end of the records, until NULL. */
const struct triton_trace *trace_table_take(struct trace_table *t, bool drain);

/* The parent of an id that is still open; false: not known, or none. */
bool trace_table_parent(const struct trace_table *t, uint64_t id, uint64_t *ret_parent);

/* The request that an id belongs to, as far as it is known by now; false: the id was not seen, or too long ago. */
bool trace_table_root(const struct trace_table *t, uint64_t id, uint64_t *ret_root);

const struct trace_table_losses *trace_table_losses(const struct trace_table *t);
