/* The plaintext of TLS: finds OpenSSL and Go's crypto/tls in the files that processes map, and has the request source
 * attach to it. Each file is attached to once, however many processes map it, and until no process maps it. Pipeline
 * thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "signals/signal.h"

#include <stdint.h>

struct request_tls;

/* `request_source` reads TLS (request_source_tls), and is borrowed, as `processes`. `agent_cpus`: how many CPUs the
 * whole agent may use. Reading that costs the observed programs more than half of that is given up, for good, and a
 * warning is logged. The caller frees `*ret`. */
int request_tls_new(void *request_source, struct processes *processes, double agent_cpus, struct request_tls **ret);
void request_tls_free(struct request_tls *t);
DEFINE_FREEP(request_tls)

/* Scans the running processes for a bounded time; later turns scan the rest. */
void request_tls_start(struct request_tls *t);
void request_tls_turn(struct request_tls *t, const struct mapped_processes *mapped);
/* The process has ended. */
void request_tls_forget(struct request_tls *t, uint32_t pid);
void request_tls_metrics(const struct request_tls *t, struct metric_set *set);
