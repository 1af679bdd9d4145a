/* Which programs were started without OpenTelemetry's environment variables (probes/process.bpf.c). Part of the process
 * source; pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct environments;

/* Attaches. The caller frees `*ret`. -errno: the kernel refuses the program. */
int environments_new(struct environments **ret);
void environments_free(struct environments *e);
DEFINE_FREEP(environments)

/* True: the program that this process has started at or after `since_ns` has no such variables. False: it may have. */
bool environments_lack_service(const struct environments *e, uint32_t pid, uint64_t since_ns);

void environments_runs(const struct environments *e, uint64_t *ret_runs, uint64_t *ret_run_time_ns);
size_t environments_bytes(const struct environments *e);
