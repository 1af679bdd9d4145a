/* Provides diagnose_request with names: of processes, threads, files and peers, and with stacks. */
#pragma once

#include "diagnose/request.h"
#include "resolve/process/processes.h"

/* All members are borrowed. */
struct request_namer {
    const struct flight_recorder *recorder; /* NULL: no recorder */
    const struct recent_samples *recent_samples;
    struct recent_waits *recent_waits;
    struct processes *processes; /* NULL: their resources are not known */
    void *source;                /* of requests; NULL: a replay */
};

/* Valid as long as `n`. */
struct request_names request_names_by(struct request_namer *n);
