/* The probes of libsonde-cuda, for `sonde record --gpu`. While the one at launches is attached, the library records in
 * each process (lib/cuda/inject.c); through the other it reports. Main thread only. */
#pragma once

#include "base/cleanup.h"

struct cpu_bpf;
struct gpu_probes;
struct sample_event;

/* Attaches to the reports. `event` and `k` are borrowed; the caller frees `*ret`. -errno: see user_probes_attach. */
int gpu_probes_attach(struct cpu_bpf *k, const struct sample_event *event, struct gpu_probes **ret);
/* Attaches to launches: recording begins, in a running process within some tenths of a second. -errno likewise. */
int gpu_probes_start(struct gpu_probes *g);
/* Detaches from launches, and waits for the last reports of all processes: two seconds at most. -ECHILD: a helper
 * process that held the probes had ended before. */
int gpu_probes_stop(struct gpu_probes *g);
void gpu_probes_free(struct gpu_probes *g);
DEFINE_FREEP(gpu_probes)
