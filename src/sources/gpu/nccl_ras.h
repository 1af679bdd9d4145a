/* The status that NCCL's RAS service reports of a job's communicators (NCCL 2.28.7 and later, `SET FORMAT json`,
 * `VERBOSE STATUS`), read as it arrives: what a job of thousands of ranks reports takes no more memory than that of
 * two. The text is of another program, which may write anything. Pure. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_PIDS_MAX          16
#define NCCL_COMMUNICATORS_MAX 32 /* of the processes asked for; further ones are left out */

struct nccl_rank {
    int64_t rank, pid; /* -1: unknown. The PID is that of its own machine and container */
    char host[46];     /* its address; "": unknown */
};

struct nccl_communicator {
    char hash[24], secondary_hash[48]; /* both together are its identity */
    uint64_t size;                     /* ranks that it should have */
    uint32_t pids;                     /* bit i: it has a rank of the i-th process asked for */
    uint64_t ranks;                    /* that reported */
    uint64_t checksum;                 /* of their ranks and operations: differs if one has gone on */
    uint64_t least, most;              /* collective operations that a rank has begun */
    uint64_t behind_count;             /* ranks that have begun `least`, if others have begun more */
    struct nccl_rank behind;           /* the first of them */
    uint64_t missing_count;            /* ranks that did not report */
    struct nccl_rank missing;          /* the first of them */
    bool is_missing_dead;              /* NCCL considers it dead */
};

struct nccl_status {
    size_t count;
    struct nccl_communicator communicators[NCCL_COMMUNICATORS_MAX];
};

#define NCCL_DEPTH_MAX 8
#define NCCL_TEXT_MAX  64 /* longer keys and values are cut */

/* Zeroed but for the PIDs: nothing was read yet. */
struct nccl_parser {
    uint32_t pids[NCCL_PIDS_MAX];
    size_t pid_count;
    struct nccl_status status;

    /* The lexer. */
    enum { NCCL_BETWEEN, NCCL_STRING, NCCL_ESCAPE, NCCL_WORD } lexer;
    char text[NCCL_TEXT_MAX];
    size_t text_length;
    bool has_string; /* `text` is a string that may be a key or a value */
    bool has_begun, has_ended;
    size_t depth;
    struct {
        char kind; /* '{' or '[' */
        char key[NCCL_TEXT_MAX];
    } levels[NCCL_DEPTH_MAX];
    char key[NCCL_TEXT_MAX]; /* of the value that comes next */

    /* What is being read. */
    struct nccl_communicator communicator;
    struct nccl_rank rank;
    uint64_t operations;
    bool is_dead;
};

/* Reads the next bytes of the object. 0; -EBADMSG: it is none. */
int nccl_parse(struct nccl_parser *p, const char *data, size_t size);
/* Whether the whole object was read: `status` is complete. */
bool nccl_parser_is_done(const struct nccl_parser *p);

/* Compares two reports, of process number `pid` of those asked for, and finds a communicator in which no rank has gone
 * on in between: one with a rank that is behind, before one with a rank that is missing, before one whose ranks are all
 * at the same operation. Returns it, of `now`; NULL: none. */
const struct nccl_communicator *nccl_status_stuck(const struct nccl_status *before, const struct nccl_status *now,
                                                  size_t pid);
/* Appends what is known of a communicator in which no rank goes on: "in NCCL's communicator 0x8c1f of 16 ranks, rank 11
 * (pid 812 on 10.0.0.7) has begun 1233 collective operations, and others 1234". */
void nccl_communicator_put(const struct nccl_communicator *c, struct buf *out);
