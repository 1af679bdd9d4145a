/* Reports to a server by OpAMP over HTTP: who the agent is, its health and its configuration in force. A thread of its
 * own posts a report every opamp.interval, and reads the answer, which may ask for all that the agent has reported
 * before, or for a profile (opamp_captures.h). An answer never makes the agent report more than twice an interval, and
 * twice at the end of a capture. A server that does not answer costs nothing else: the next report has all that it
 * missed. */
#pragma once

#include "base/cleanup.h"
#include "config/config.h"
#include "export/opamp_agent.h"
#include "model/metric.h"
#include "model/profile.h"
#include "send/export_io.h"

struct opamp_client;

/* Called on the client's thread. */
struct opamp_source {
    void (*health)(void *context, struct opamp_health *ret); /* the present one */
    /* Whether the capture can begin now. 0, or -errno with the reason in `why`. */
    int (*check_capture)(void *context, const struct opamp_capture *capture, char *why, size_t why_size);
    /* The profile of a capture that lasted from `from_ns` to `to_ns` (CLOCK_MONOTONIC). The caller frees it. */
    int (*capture)(void *context, const struct opamp_capture *capture, uint64_t from_ns, uint64_t to_ns,
                   struct profile **ret);
    void *context;
};

/* `*ret` is NULL if no server is configured. `io` NULL: libcurl and the system clock. `config` and `source` are copied;
 * the caller frees `*ret`. -errno: the settings are unusable (logged); -ENOMEM. */
int opamp_client_new(const struct config *config, const struct opamp_source *source, const struct export_io *io,
                     struct opamp_client **ret);
/* Starts the thread, once. Forks must happen before. -errno: there is no thread, and nothing is reported. */
int opamp_client_start(struct opamp_client *c);
/* Reports, and again if the server asks for all. Returns how long to wait for the next report. For the thread, and for
 * tests, which start none. */
uint64_t opamp_client_report(struct opamp_client *c);
/* The configuration has changed. Any thread. */
void opamp_client_set_config(struct opamp_client *c, const struct config *config);
/* Ends the reports with one that says so, for two seconds at most. Does not wait. Accepts NULL. */
void opamp_client_end(struct opamp_client *c);
/* Waits for the thread. */
void opamp_client_free(struct opamp_client *c);
DEFINE_FREEP(opamp_client)

void opamp_client_metrics(struct opamp_client *c, struct metric_set *set); /* any thread */
