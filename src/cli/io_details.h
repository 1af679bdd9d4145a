/* Which processes and files the I/O of an interval took its time for, and which operations failed: what `sonde io`
 * lists below its table. */
#pragma once

#include "base/cleanup.h"
#include "signals/io/io_names.h"
#include "sources/io/io_uses.h"

#include "probes/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IO_DETAIL_PATH_BYTES 2048

/* One operation of one process. Strings are valid until the next round. */
struct io_busy {
    uint32_t process;
    const char *command; /* "": not known */
    const char *manager, *job_id;
    const char *operation;
    uint64_t operations, ns;
    size_t files;                    /* 0: calls that name a path */
    char path[IO_DETAIL_PATH_BYTES]; /* of the file with the most time */
    uint64_t path_ns;
};

/* Failures alike. */
struct io_failing {
    const char *error, *operation;
    char number[12]; /* of an error without a name */
    bool is_expected;
    uint32_t process;    /* 0: not counted by process, as expected errors are */
    const char *command; /* "": not known */
    uint64_t count;
    char path[IO_DETAIL_PATH_BYTES]; /* "": not known */
};

struct io_details;

/* `names` is borrowed, with its source. -ENOMEM. */
int io_details_new(struct io_names *names, struct io_details **ret);
void io_details_free(struct io_details *d);
DEFINE_FREEP(io_details)

/* Begins a round: forgets the last one, and takes what the kernel counted since. -errno. */
int io_details_refresh(struct io_details *d);
/* Adds failures of this round. -ENOMEM. */
int io_details_add_error(struct io_details *d, const struct io_error_key *key, uint64_t count);

/* The operations of processes with the most time, most first: up to `max`. Returns how many. */
size_t io_details_busiest(struct io_details *d, struct io_busy *ret, size_t max);
/* The failures with the most operations, unexpected errors first: up to `max`. Returns how many. */
size_t io_details_failing(struct io_details *d, struct io_failing *ret, size_t max);
