/* I/O counters summed by job, container, mount, process or file, and their increase in an interval: the rows of
 * `sonde io`. Processes that begin and end within an interval are one row for each command. */
#pragma once

#include "base/cleanup.h"
#include "io_report/io_details.h"

#include "probes/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum io_field { IO_FIELD_JOB, IO_FIELD_CONTAINER, IO_FIELD_MOUNT, IO_FIELD_PROCESS, IO_FIELD_FILE, IO_FIELDS };

#define IO_FIELD_BYTES 2048

/* In place of a field: of operations that the kernel's table had no room to count by that field; of calls like stat and
 * unlink, and of an open that fails, whose path is not resolved. */
#define IO_NOT_ATTRIBUTED "(not attributed)"
#define IO_BY_PATH        "(by path)"

struct io_row {
    const char *fields[IO_FIELDS]; /* NULL: it does not distinguish rows */
    uint64_t read_bytes, write_bytes, reads, writes, syncs, others, errors;
    uint64_t unexpected_errors; /* of `errors`: that programs do not expect (probes/io.h) */
    uint64_t direct_read_bytes; /* of read_bytes: past the page cache */
    bool counts_misses;
    uint64_t missed_bytes; /* that the other reads brought into the page cache, with read-ahead */
    bool is_unattributed;  /* a field is IO_NOT_ATTRIBUTED */
    uint64_t time_ns;      /* that operations took, all together */
    uint64_t median_ns;    /* upper bounds; 0: no operation was timed */
    uint64_t p99_ns;
};

/* Of the operations of an interval, those without a field of theirs are missing. */
struct io_attribution {
    uint64_t operations, missing;
};

struct io_rows;

/* "job,mount": the fields that distinguish rows, as a mask of 1 << enum io_field. -EINVAL: another word, or none. */
int io_rows_parse_fields(const char *text, unsigned *ret_fields);
const char *io_rows_field_name(enum io_field field);

/* `source` is borrowed (sources/io/io.h); it counts by process or file where `fields` say so. -ENOMEM. */
int io_rows_new(void *source, unsigned fields, struct io_rows **ret);
void io_rows_free(struct io_rows *r);
DEFINE_FREEP(io_rows)

/* Ends an interval, and begins the next one: reads all counters. -errno. */
int io_rows_refresh(struct io_rows *r);
/* Makes room in the kernel's tables within an interval: takes the counters of ended processes, and the entries of the
 * lists. The rows and lists of the previous interval become invalid. -errno. */
int io_rows_sweep(struct io_rows *r);
/* The length of the last interval: the time between the starts of two readings of the counters. Reading them may take
 * long on a busy node. */
uint64_t io_rows_interval_ns(const struct io_rows *r);
/* The details of the last interval; borrowed. */
struct io_details *io_rows_details(const struct io_rows *r);

/* The rows of the last interval that have an operation, the greatest first. The caller frees `*ret`; strings are valid
 * until the next refresh. -ENOMEM. */
int io_rows_list(const struct io_rows *r, enum io_order order, struct io_row **ret, size_t *ret_count);

struct io_attribution io_rows_attribution(const struct io_row *rows, size_t count);
