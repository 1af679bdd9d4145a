/* The tables of the centre, with the names and columns of the OpenTelemetry Collector's ClickHouse exporter, so that
 * what exists for those works here; and tables of our own for profiles, which it does not have. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define TABLES_DATABASE "otel"

/* In the order of their insertion: what rows refer to comes before them. The spool's files have these numbers. */
enum table {
    TABLE_TRACES,
    TABLE_LOGS,
    TABLE_GAUGES,
    TABLE_SUMS,
    TABLE_HISTOGRAMS,
    TABLE_EXPONENTIALS,
    TABLE_SUMMARIES,
    TABLE_PROFILE_RESOURCES,
    TABLE_PROFILE_FRAMES,
    TABLE_PROFILE_STACKS,
    TABLE_PROFILE_SAMPLES,
    TABLE_AGENT_REPORTS,
    TABLE_CAPTURES,
    TABLE_COUNT
};

const char *table_name(enum table table);

/* Appends the statement that creates the table, if it does not exist. */
void table_put_create(struct buf *sql, enum table table);
/* Appends the statement that adds the columns that a table of an earlier version lacks, and has the table keep rows for
 * `keep_days`. The engine computes such columns of the rows that there are. */
void table_put_migrate(struct buf *sql, enum table table, unsigned keep_days);

/* The engine numbers the parts of a table in the order of their insertion (block numbers). A part that is merged of
 * others has the numbers of all of them. */

/* Appends the query for the last number of each table (0: it has no parts), as a row of uint64_t in RowBinary. */
void tables_put_last_blocks(struct buf *sql);
/* Appends the statement that inserts the rows of `path` (absolute), which are RowBinary in the order of the columns,
 * but those of days that have a part with a number above `after_block`. With the number from before the first attempt,
 * and no other insertions, a repetition inserts what earlier attempts did not. */
void table_put_insert(struct buf *sql, enum table table, const char *path, uint64_t after_block);
