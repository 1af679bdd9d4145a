/* Whom profile.sampling_rules means by names and labels of pods, which only the container runtime knows: whenever it
 * has told something new (pod_watch.h), the source of CPU samples is given the pods that these are now. Pipeline thread
 * only. */
#pragma once

#include "sources/sampling/sampling_rules.h"

#include <stdbool.h>

struct pipeline;
struct pods;

struct sampling_pods { /* all 0 at first */
    struct pods *seen; /* the answer that was given on; a reference */
    unsigned ticks;
    bool said_full;
};

/* To be called once a second. Asks the runtime every five, for a pod that has come may be one of them before anybody
 * has met it. */
void sampling_pods_follow(struct sampling_pods *t, const struct sampling_rules *rules, struct pipeline *p);
void sampling_pods_clear(struct sampling_pods *t);
