/* The command line of `sonde record`: parses its options and checks their combinations. */
#pragma once

#include "cli/options.h"
#include "model/profile.h"
#include "recording/record_filters.h"

#include <stdbool.h>
#include <stdint.h>

struct record_event;

struct record_args {
    bool all;
    struct record_filters filters;
    struct text_list events;
    struct record_event *event; /* NULL: none */
    int64_t period;             /* of --event; 0: its default */
    int64_t rate_hz, ready_fd;
    uint64_t duration_ns;
    const char *output, *record_events, *replay, *cri_socket;
    bool links;
    bool lines, inlines;
    bool off_cpu, wall, wakers, gpu;
    const struct sample_type *type; /* NULL: of `event` */
    uint64_t min_wait_ns, sample_wait_ns;
    char **command; /* NULL: none */
};

/* Parses the command line. The texts in `*ret` are borrowed from `argv`; the caller frees ret->event. Returns 0, 1 when
 * --help was printed, or -errno after logging (-ENOMEM is not logged). */
int record_args_parse(int argc, char **argv, struct record_args *ret);
