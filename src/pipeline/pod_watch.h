/* Keeps the list of this node's pods up to date: a thread queries the container runtime (cri.h) when an unknown pod
 * is seen or on request, at most every two seconds, and less often while queries fail. The pipeline takes new lists
 * without blocking. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

struct pod_watch;
struct pods;
struct processes;

/* Starts the thread and waits up to two seconds for the first reply, which is passed to `processes`. `socket`,
 * `label_keys`: as in cri_options, copied. To be called after all forks. A missing reply is not an error. The
 * caller frees `*ret`. -ENOMEM, or -errno of the thread. */
int pod_watch_new(const char *socket, const char *label_keys, struct processes *processes, struct pod_watch **ret);
void pod_watch_free(struct pod_watch *w); /* may take a second if the runtime does not respond */
DEFINE_FREEP(pod_watch)

/* Passes a new list to `processes`, and requests a query if they miss a pod. Once a turn, on the pipeline thread. */
void pod_watch_turn(struct pod_watch *w, struct processes *processes);
/* Requests a query as soon as the rate limit allows it. */
void pod_watch_ask(struct pod_watch *w);
/* The list that was passed last, borrowed until the next turn; NULL: none. */
struct pods *pod_watch_pods(const struct pod_watch *w);

void pod_watch_metrics(struct pod_watch *w, struct metric_set *set);
