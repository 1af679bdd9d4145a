/* The ladder of the request source: tries each way of seeing sends and receives by loading and attaching it, best
 * first. Private to the request source and to the tests that take one method after the other on one kernel. */
#pragma once

#include "sources/source.h"

#define REQUEST_METHOD_BEST (-1)
#define REQUEST_WALKS_BEST  (-1)

struct request_bpf;

struct request_choice {
    int method; /* REQUEST_METHOD_BEST, or only this one */
    int walks;  /* REQUEST_WALKS_BEST, or enum request_walks */
};

/* Loads and attaches the best that is to be had of what was chosen; the caller destroys `*ret`. What was refused is in
 * `report`. */
int request_attach_best(const struct source_options *options, struct attach_report *report,
                        const struct request_choice *choice, struct request_bpf **ret);

/* No connection and no thread is known any more. */
void request_attach_forget(struct request_bpf *bpf);
/* The counters at this place belong to nobody any more. */
void request_attach_forget_process(struct request_bpf *bpf, uint32_t place);

/* As source_request.open. */
int request_source_open_on(const struct source_options *options, struct attach_report *report,
                           const struct request_choice *choice, void **ret_self);
