/* Calls of libcuda by process: the source of signal "cuda". It has no records: the signal reads its tables, and finds
 * the libraries to attach to. Pipeline thread only. */
#pragma once

#include "sources/attach/map_walk.h"
#include "sources/attach/uprobe_attachments.h"
#include "sources/source.h"

#include <stdint.h>

extern const struct source source_cuda;

/* Borrowed. The kinds of its sites are enum cuda_call. */
struct uprobe_attachments *cuda_source_attachments(void *cuda_source);

/* The keys are struct cuda_process_name, the values struct cuda_process. */
struct map_walk cuda_source_processes(void *cuda_source);
/* The keys are thread IDs, the values struct cuda_wait: calls that have not returned. */
struct map_walk cuda_source_waits(void *cuda_source);

/* Deletes the counts of the processes with this PID that started before `start_ns` (as in cuda_process_name). */
void cuda_source_forget(void *cuda_source, uint32_t pid, uint64_t start_ns);
/* Deletes all counts and waits, because calls were missed: nothing is attached to now. The source does so itself when
 * its helper process has ended unexpectedly. */
void cuda_source_reset(void *cuda_source);
uint64_t cuda_source_resets(void *cuda_source); /* how many times that was done */
