/* The two halves of `sonde probes`: the list (probes.c) and, behind `watch`, what fires (probes_watch.c). */
#pragma once

#include "resolve/usdt/usdt_processes.h"

#include <stdint.h>

struct probes_watch_options {
    struct usdt_filter filter;  /* provider and name are there */
    uint64_t duration_ns;       /* 0: until it is interrupted */
    const char *by, *histogram; /* names of arguments, or "arg0"; NULL: not asked */
    bool json;
};

/* Prints firings of a probe one by one, or counts of them at the end. Says why not. */
int probes_watch(const struct probes_watch_options *options);

/* What a walk through processes has not seen, on standard error. */
void probes_tell_losses(const struct usdt_losses *losses);
