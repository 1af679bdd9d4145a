/* Whom `sonde record` is of: what the command line says, made into the filters of sources. Errors are logged. */
#pragma once

#include "cli/options.h"
#include "sources/source.h"

#include <stdbool.h>

struct record_filters {
    struct option_texts pids, containers, pods, pod_labels, cgroups, commands, users;
};

/* Whether anything is left out by them. */
bool record_filters_narrow(const struct record_filters *f);

/* Looks up what they name, but pods by name and label (record_pods.h). -EINVAL: wrongly written; -ESRCH: there is no
 * such thing. */
int record_filters_set(const struct record_filters *f, struct source_options *options);

/* Warns of what is not there (any more): why a profile may be empty. */
void record_filters_explain(const struct record_filters *f);
