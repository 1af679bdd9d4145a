/* The engine as the server sees it: a process (engine_process.h) that is started again when it ends. Thread-safe. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "server/tables.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

struct engine_options {
    const char *library;   /* path of libchdb.so */
    const char *directory; /* of the data; absolute; locked by the caller */
    unsigned keep_days;
    uint64_t memory_bytes;
};

/* Starts the engine, which is ready soon afterwards; a start that fails is logged and tried again, unless the data is
 * of a newer version. Borrows the strings. 0 or -errno. */
int engine_start(const struct engine_options *options, struct engine **ret);
/* Whether the data is of a newer version (logged): the engine does not start. */
bool engine_is_refused(struct engine *e);
/* Ends the process in order. No other thread may use the engine any more. */
void engine_free(struct engine *e);
DEFINE_FREEP(engine)

/* Makes or migrates the tables, and ends. 0, or -errno after the reason was logged; -ENOTSUP: the data is of a newer
 * version. */
int engine_migrate(const struct engine_options *options);

/* The number of the last insertion into each table (tables.h). Errors as of engine_insert. */
int engine_last_blocks(struct engine *e, uint64_t ret[TABLE_COUNT], struct buf *why);
/* Inserts the rows of a file (RowBinary) into a table, but those of days that have an insertion after that number. 0,
 * and `why` may have text in any case; -EPROTO: the engine refuses, see `why`; -EAGAIN: it is not running; -EPIPE: it
 * ended meanwhile; -ETIMEDOUT: it was ended because it did not answer. Both of one thread. */
int engine_insert(struct engine *e, enum table table, uint64_t after_block, int rows_fd, struct buf *why);

/* Runs a reader's query, which can change nothing. 0 with the result in `out`; errors as above with the reason in
 * `out`; -EBUSY: too many queries at once; -E2BIG: the result is larger than ENGINE_RESULT_MAX_BYTES. */
int engine_query(struct engine *e, const char *sql, size_t size, const char *format, struct buf *out);
