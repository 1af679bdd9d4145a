/* What threads did with files, for a report: read from the tables of a source that was opened with `by_access`.
 * Pipeline thread only. */
#pragma once

#include "probes/io.h"

#include <stdbool.h>
#include <stdint.h>

struct io_access_reader {
    void *context;
    void (*take)(void *context, const struct io_access_key *key, const struct io_access *access);
    void (*take_interval)(void *context, const struct io_interval_key *key, const struct io_interval *interval);
};

/* The name of a file goes with the first of its records: `take` keeps it for further ones.
 *
 * Takes from the tables the records of ended threads, idle records if the table gets full, and the intervals
 * of the past; `is_last`, when counting has stopped: everything. The rest of a thread and file may follow later.
 * 0, or -errno of reading the tables, when some may be missing. */
int io_accesses_take(void *io_source, uint64_t now_ns, bool is_last, const struct io_access_reader *reader);

/* When the first interval began: the start of the source, CLOCK_MONOTONIC. */
uint64_t io_accesses_start_ns(void *io_source);

/* What the accesses lack. */
struct io_access_losses {
    uint64_t lost;        /* operations: they did not fit the tables, or were not seen */
    uint64_t pending;     /* operations that had begun, and not ended, when the source was stopped */
    uint64_t unnamed;     /* operations on files without a name, because the table of names was full */
    uint64_t off_heatmap; /* operations whose bytes are in no interval */
};
struct io_access_losses io_accesses_losses(void *io_source);
