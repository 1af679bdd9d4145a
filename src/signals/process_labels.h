/* The labels by which metrics name a process: pid, service_name, manager, job_id, container_id. */
#pragma once

#include "model/metric.h"
#include "resolve/proc/job.h"

#include <stdint.h>

struct processes;

#define PROCESS_LABELS 5

struct process_labels {
    struct metric_label list[PROCESS_LABELS]; /* their values live here and, until the next turn, in the table of
                                                 processes: not to be copied */
    char pid[16];
    struct job job;
};

/* Labels of a process that is not known have empty values. `processes` NULL: none is known. */
void process_labels_fill(struct processes *processes, uint32_t pid, struct process_labels *ret);
