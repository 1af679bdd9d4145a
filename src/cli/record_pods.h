/* Pods that `sonde record` was told to choose by name or by label: their cgroups at the beginning, and of those that
 * come and go while it records. The container runtime says which they are (agent/cri.h); the kernel half leaves out all
 * others. Errors are logged. */
#pragma once

#include "base/cleanup.h"
#include "cli/record_filters.h"

struct pipeline;
struct record_pods;

/* Adds their cgroups to those in `options`, where the other filters have put theirs before; the filters' texts are
 * borrowed. NULL: no pod is named so. -ESRCH: no pod is such a one; -EINVAL: wrongly written; else the runtime could
 * not be asked. */
int record_pods_new(const struct record_filters *f, const char *cri_socket, struct source_options *options,
                    struct record_pods **ret);
void record_pods_free(struct record_pods *p);
DEFINE_FREEP(record_pods)

/* Labels that they were chosen by, which samples have: separated by commas. Takes NULL. */
const char *record_pods_labels(const struct record_pods *p);

/* Takes NULL. Once a second, with the pipeline's thread. Looks through the tree of cgroups when a pod is new. */
void record_pods_follow(struct record_pods *p, struct pipeline *pipeline);
