/* Shared by the two parts of `sonde probes`: the list (probes.c) and `watch` (probes_watch.c). */
#pragma once

#include "resolve/usdt/usdt_processes.h"

#include <stdint.h>

struct probes_watch_options {
    struct usdt_filter filter;  /* provider and name are set */
    uint64_t duration_ns;       /* 0: until interrupted */
    const char *by, *histogram; /* argument names, or "arg0"; NULL: option not given */
    bool json;
};

/* Attaches to a probe and prints each firing, or counts at the end. Returns 0, or -errno after logging. */
int probes_watch(const struct probes_watch_options *options);

/* Logs what a walk over processes could not inspect. */
void probes_warn_losses(const struct usdt_losses *losses);
