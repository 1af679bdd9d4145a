/* Which programs and files the I/O of an interval took its time for, and which operations failed: what `sonde io`
 * lists below its table. Processes of one name that do the same are one entry: a shell that starts a program a thousand
 * times would otherwise hide behind a thousand small ones. */
#pragma once

#include "base/cleanup.h"
#include "io_report/io_processes.h"
#include "signals/io/io_names.h"
#include "sources/io/io_uses.h"

#include "probes/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IO_DETAIL_PATH_BYTES 2048

/* What makes one entry come before another. Reads, writes and syncs count only operations of their kind. */
enum io_order { IO_ORDER_TIME, IO_ORDER_BYTES, IO_ORDER_READ, IO_ORDER_WRITE, IO_ORDER_SYNCS, IO_ORDER_OPERATIONS };

/* "time", "bytes", "read", "write", "syncs" or "operations". -EINVAL: another word. */
int io_details_parse_order(const char *text, enum io_order *ret);

/* One operation of the processes of one job that have the same name. Strings are valid until the next round. */
struct io_busy {
    uint32_t process;             /* the last one */
    bool is_several;              /* not the only one */
    const char *command;          /* "": not known */
    char script[IO_SCRIPT_BYTES]; /* of the only one: io_processes_script */
    const char *manager, *job_id;
    const char *operation;
    uint64_t operations, bytes, ns;
    double share;                    /* of all that the order counts */
    size_t files;                    /* 0: calls that name a path */
    char path[IO_DETAIL_PATH_BYTES]; /* of the file with the most by the order */
    uint64_t path_ns;
    double path_share; /* of this entry */
};

/* Failures alike. */
struct io_failing {
    const char *error, *operation;
    char number[12]; /* of an error without a name */
    bool is_expected;
    uint32_t process;    /* the last one; 0: not counted by process, as expected errors are */
    bool is_several;     /* not the only one */
    const char *command; /* "": not known */
    uint64_t count;
    char path[IO_DETAIL_PATH_BYTES]; /* "": not known */
};

struct io_details;

/* Both are borrowed; `names` with its source. -ENOMEM. */
int io_details_new(struct io_names *names, struct io_processes *processes, struct io_details **ret);
void io_details_free(struct io_details *d);
DEFINE_FREEP(io_details)

/* Begins an interval: forgets the last one. */
void io_details_clear(struct io_details *d);
/* Adds what the kernel counted since the last call. -errno. */
int io_details_take(struct io_details *d);
/* Adds failures, except failures of this process and of Sonde's helpers. -ENOMEM. */
int io_details_add_error(struct io_details *d, const struct io_error_key *key, uint64_t count);

/* The entries with the most by this order, most first: up to `max`. Returns how many. */
size_t io_details_busiest(struct io_details *d, enum io_order order, struct io_busy *ret, size_t max);
/* The failures with the most operations, unexpected errors first: up to `max`. Returns how many. */
size_t io_details_failing(struct io_details *d, struct io_failing *ret, size_t max);
