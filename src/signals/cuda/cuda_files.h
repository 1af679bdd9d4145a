/* Finds libcuda in the files that processes map, and has the source attach to it, one attachment for each kind of
 * calls. Each file is attached to once, however many processes map it, and until no process maps it. Pipeline thread
 * only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "signals/signal.h"

#include <stdbool.h>
#include <stdint.h>

struct cuda_files;

/* `cuda_source` and `processes` are borrowed. The caller frees `*ret`. -ENOMEM. */
int cuda_files_new(void *cuda_source, struct processes *processes, struct cuda_files **ret);
void cuda_files_free(struct cuda_files *c);
DEFINE_FREEP(cuda_files)

/* Scans the running processes for a bounded time; later turns scan the rest. */
void cuda_files_start(struct cuda_files *c);
void cuda_files_turn(struct cuda_files *c, const struct mapped_processes *mapped);
void cuda_files_forget(struct cuda_files *c, uint32_t pid); /* the process has ended */

/* Detaches all files, or attaches to them again; then all counts begin again, as calls were missed. */
void cuda_files_pause(struct cuda_files *c, bool is_paused);

/* The kinds of calls that are counted in this process, a bit `1u << enum cuda_call` for each. */
uint32_t cuda_files_counted(const struct cuda_files *c, uint32_t pid);

void cuda_files_metrics(const struct cuda_files *c, struct metric_set *set);
