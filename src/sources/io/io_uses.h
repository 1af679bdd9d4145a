/* What took the time of I/O in the last while, and the paths that failed calls named: details that a source keeps when
 * it was opened with `counts_uses`; the paths also with `by_access`. Pipeline thread only. */
#pragma once

#include "probes/io.h"

#include <stdbool.h>
#include <stddef.h>

struct io_use_reader {
    void *context;
    void (*take)(void *context, const struct io_use_key *key, const struct io_use *use);
};

/* Takes all uses since the last call. Those with the oldest operations are missing if there were more than IO_MAX_USES.
 * 0, or -errno of reading the table, when some more may be missing. */
int io_uses_take(void *io_source, const struct io_use_reader *reader);

/* Reads the path that a failed call named; `hash`: io_error_key.key.file. False: it could not be read, or gave way to
 * later ones. */
bool io_failed_path(void *io_source, __u64 hash, struct io_path *ret);
