/* Who knows the pods of this node at present: a thread that asks the container runtime (cri.h) when somebody wants to
 * know of more than it said last, every two seconds at most, and more seldom while it gives no answer. The pipeline
 * takes what is new and never waits. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

struct pod_watch;
struct pods;
struct processes;

/* Begins by asking, and waits for that answer, which the processes are given, two seconds at most. `socket`,
 * `label_keys`: as of cri_options, copied. To be called when all is forked that is to be. */
int pod_watch_new(const char *socket, const char *label_keys, struct processes *processes, struct pod_watch **ret);
void pod_watch_free(struct pod_watch *w); /* may take a second where the runtime does not answer */
DEFINE_FREEP(pod_watch)

/* Gives the processes what is new, and asks for what they miss. */
void pod_watch_turn(struct pod_watch *w, struct processes *processes);
/* The runtime is asked again as soon as it may. */
void pod_watch_ask(struct pod_watch *w);
/* What the processes were given last, borrowed until the next turn; NULL: nothing. */
struct pods *pod_watch_pods(const struct pod_watch *w);

void pod_watch_metrics(struct pod_watch *w, struct metric_set *set);
