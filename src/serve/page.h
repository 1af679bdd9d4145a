/* The agent's page over HTTP: UI, API, /metrics, /healthz. Binds to loopback unless told otherwise and
 * answers only to names of this host (against DNS rebinding). Knows nothing of the agent: what it shows comes
 * through `struct page_data`, whose functions are called from HTTP threads. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/profile.h"
#include "model/request.h"

#include <stdbool.h>
#include <stdint.h>

struct page_data {
    void *context;
    /* The profile of the last `seconds`; the caller frees. */
    int (*profile)(void *context, uint64_t seconds, const struct profile_filter *filter,
                   struct profile **ret);
    /* The slowest requests of the last `seconds`, slowest first; the caller frees array and each. */
    int (*requests)(void *context, uint64_t seconds, size_t max, struct request ***ret, size_t *ret_count);
    int (*metrics)(void *context, struct metric_set *set);
    /* One JSON object, which web/src/health.tsx reads: {"version","host","kernel","uptime_seconds","samples",
     * "sample_hz","losses":{reason: count},"budget":{"detail","cpu_share","cpu_share_allowed","memory_bytes",
     * "memory_bytes_allowed"},"probes":[{"probe","attached","rung","not_better","truth"}]}. The caller frees.
     */
    int (*status)(void *context, char **ret_json);
};

struct page_options {
    const char *listen;        /* "127.0.0.1:7070" */
    const char *allowed_hosts; /* further names, comma-separated, for reverse proxies; NULL: none */
    bool without_ui;          /* the API and /metrics alone: `sonde agent` */
};

struct page;

/* Listens and serves on threads of its own until page_free. -EADDRINUSE, -EINVAL (address), ... `data` is
 * borrowed. */
int page_start(const struct page_options *options, const struct page_data *data, struct page **ret);
uint16_t page_port(const struct page *p);
void page_free(struct page *p);
DEFINE_FREEP(page)
