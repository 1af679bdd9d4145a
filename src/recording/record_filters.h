/* Process filters of `sonde record`: converts command-line options to the filters of the sources. Errors are logged. */
#pragma once

#include "base/buf.h"
#include "base/text_list.h"
#include "model/task_filter.h"

#include <stdbool.h>

struct record_filters {
    struct text_list pids, containers, pods, pod_labels, cgroups, commands, users;
};

/* Whether any filter is set. */
bool record_filters_narrow(const struct record_filters *f);

/* Resolves the filters into `options`, except pods by name and label (record_pods.h). 0, -EINVAL: malformed value;
 * -ESRCH: no such process, container, pod or cgroup. */
int record_filters_set(const struct record_filters *f, struct task_filter *filter);

/* After an empty recording: appends clauses, each with "; " behind it, about selected processes and thread names that
 * do not exist (any more). */
void record_filters_explain(const struct record_filters *f, struct buf *out);
