/* Resolves the rules of profile.sampling_rules by pod name and pod label. Only the container runtime knows the pods:
 * for each new list (pod_watch.h) the sampling source gets the pods that match. Pipeline thread only. */
#pragma once

#include "sources/sampling/sampling_rules.h"

#include <stdbool.h>

struct pipeline;
struct pods;

struct sampling_pods { /* initially all zero */
    struct pods *seen; /* the list that was processed last; a reference */
    unsigned ticks;
    bool warned_full;
};

/* To be called once a second. Requests a query of the container runtime every five seconds, because a new pod may
 * match before any of its processes is sampled. */
void sampling_pods_follow(struct sampling_pods *t, const struct sampling_rules *rules, struct pipeline *p);
void sampling_pods_clear(struct sampling_pods *t);
