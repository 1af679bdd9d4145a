/* `sonde record --gpu`: finds the probes of libsonde-cuda in processes. Functions that fail log the reason. Main thread
 * only. */
#pragma once

#include "base/cleanup.h"
#include "sources/attach/sample_event.h"

#include <stdbool.h>

struct record_gpu;
struct task_filter;

int record_gpu_new(struct record_gpu **ret); /* -ENOMEM */
void record_gpu_free(struct record_gpu *g);
DEFINE_FREEP(record_gpu)

/* For COMMAND, before it is forked: NVIDIA's driver will load libsonde-cuda into it. A library that the environment
 * names already is kept; record_gpu_find checks it. 0, or -errno after logging. */
int record_gpu_prepare_command(const struct record_gpu *g);

/* Finds the probes in the processes that `filter` names by PID; without one in all, including those that start later,
 * such as COMMAND. `*event` borrows them from `g`. One recorder at a time. 0, or -errno after logging. */
int record_gpu_find(struct record_gpu *g, const struct task_filter *filter, bool has_command,
                    struct sample_event *event);

/* Why nothing was recorded, as the end of a sentence. */
const char *record_gpu_explain_none(void);
