/* The version of the tables (tables.h), which the database keeps in a table of its own, otel.schema_versions. It has a
 * row for each migration. Data of a newer version is left alone: this program could not read it, or would write rows
 * that the newer one does not expect.
 *
 * Columns that are inserted never change in a table that there is: the spool may have their rows, written by an earlier
 * version. What is new is a computed column, or another table with the next number. */
#pragma once

#include "base/buf.h"

#include <stdint.h>

/* To be raised by one with each change of tables.c: tests/unit/server/test_schema.c knows the hash of its texts. */
#define SCHEMA_VERSION 1

enum schema_state { SCHEMA_IS_CURRENT, SCHEMA_IS_OLD, SCHEMA_IS_NEWER };

/* A hash of the statements that make and migrate the tables, which depend on the days that rows are kept. */
uint64_t schema_hash(unsigned keep_days);

/* Appends the statement that creates the table of versions, if it does not exist. */
void schema_put_create(struct buf *sql);
/* Appends the query whose result, in TSV, schema_state takes. */
void schema_put_find(struct buf *sql);
/* Where the tables are newer, the reason why they cannot be used is appended to `why`. */
enum schema_state schema_state(const char *found, size_t size, unsigned keep_days, struct buf *why);
/* Appends the statement that says that the tables have this version now. */
void schema_put_record(struct buf *sql, unsigned keep_days);
