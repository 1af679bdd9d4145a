/* Pods that `sonde record` selects by name or by label: resolves them to cgroups at the start, and follows pods that
 * start and end during the recording. The container runtime lists the pods (pipeline/cri.h); the BPF programs filter by
 * cgroup. Errors are logged. */
#pragma once

#include "base/cleanup.h"
#include "recording/record_filters.h"

struct pipeline;
struct record_pods;

/* Adds the cgroups of matching pods to `filter`, after record_filters_set. Borrows `f` and its strings. `*ret` is NULL
 * when no filter selects pods by name or label. 0; -ESRCH: no pod matches; -EINVAL: malformed value; other -errno: the
 * runtime cannot be queried. */
int record_pods_new(const struct record_filters *f, const char *cri_socket, struct task_filter *filter,
                    struct record_pods **ret);
void record_pods_free(struct record_pods *p);
DEFINE_FREEP(record_pods)

/* Comma-separated keys of the labels used for selection; samples carry these labels. "" for NULL. */
const char *record_pods_labels(const struct record_pods *p);

/* To be called once a second on the pipeline's thread: updates the cgroup filter. Walks the cgroup tree when there is a
 * new pod. `p` may be NULL. */
void record_pods_follow(struct record_pods *p, struct pipeline *pipeline);
