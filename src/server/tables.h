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

/* Appends the statement that inserts the rows of `path` (absolute), which are RowBinary in the order of the columns.
 * The engine ignores a second statement with the same `token`. */
void table_put_insert(struct buf *sql, enum table table, const char *path, uint64_t token);
