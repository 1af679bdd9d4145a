/* The names that diagnose asks for as it takes a request apart: frames of the stacks of its waits, and whose it is. */
#pragma once

#include "diagnose/request.h"
#include "model/loss.h"
#include "resolve/process/processes.h"
#include "resolve/sample/samples.h"
#include "resolve/sample/wait_stacks.h"

/* All borrowed. */
struct request_namer {
    struct processes *processes;
    struct sample_resolver *resolver;
    struct wait_stacks *wait_stacks;
    struct losses *losses; /* counts what is not whole */
};

/* Holds as long as `n` does. */
struct request_names request_names_by(struct request_namer *n);
