/* Provides diagnose_request with names: the frames of a request's wait stacks, and the process's resource. */
#pragma once

#include "diagnose/request.h"
#include "model/loss.h"
#include "resolve/process/processes.h"
#include "resolve/sample/samples.h"
#include "resolve/sample/wait_stacks.h"

/* All members are borrowed. */
struct request_namer {
    const struct flight_recorder *recorder; /* NULL: there is none */
    const struct recent_stacks *recent_stacks;
    struct recent_waits *recent_waits;
    struct processes *processes;
    struct sample_resolver *resolver;
    struct wait_stacks *wait_stacks;
    struct losses *losses; /* counts incomplete stacks */
    void *source;          /* of requests; NULL: a replay */
};

/* Valid as long as `n`. */
struct request_names request_names_by(struct request_namer *n);
