/* The agent's page over HTTP: UI, API, /metrics, /healthz. Binds to loopback unless told otherwise and
 * answers only to names of this host (against DNS rebinding). Knows nothing of the agent: what it shows comes
 * through `struct page_data`, whose functions are called from HTTP threads. */
#pragma once

#include "base/cleanup.h"
#include "model/heatmap.h"
#include "model/hotspots.h"
#include "model/metric.h"
#include "model/profile.h"
#include "model/request.h"

#include <stdbool.h>
#include <stdint.h>

struct page_data {
    void *context;
    /* The profile of the last `seconds`, of the filter's time; the caller frees. -EOPNOTSUPP: waits are not looked at.
     */
    int (*profile)(void *context, uint64_t seconds, const struct profile_filter *filter, struct profile **ret);
    /* The profile, and the heatmap, of [from_ns, to_ns) of CLOCK_MONOTONIC, outwards to whole slots of 20 ms, and to
     * seconds; the caller frees. -ERANGE: all of it is still to come; -ENODATA (of a profile): samples are no longer
     * kept, or not so exactly, or nobody looked yet. */
    int (*region)(void *context, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                  struct profile **ret);
    int (*heatmap)(void *context, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   struct heatmap **ret);
    /* Functions over the same time, outwards to whole windows of some seconds; the caller frees. -ERANGE as above. */
    int (*hotspots)(void *context, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                    const struct hotspots_options *options, struct hotspots **ret);
    /* The slowest requests of the last `seconds`, slowest first; the caller frees array and each. */
    int (*requests)(void *context, uint64_t seconds, size_t max, struct request ***ret, size_t *ret_count);
    int (*metrics)(void *context, struct metric_set *set);
    /* One JSON object, which web/src/health.tsx reads: {"version","host","kernel","waits" (where they are looked
     * at),"now_ms","uptime_seconds", "samples","sample_hz","sampling_rules" (where there are
     * some):[{"rule","sample_hz","found","samples","ticks"}],"losses":{reason:
     * count},"budget":{"detail","cpu_share","cpu_share_allowed","memory_bytes",
     * "memory_bytes_allowed"},"probes":[{"probe","attached","method","fallback_reason","limitation"}]}. The caller
     * frees.
     */
    int (*status)(void *context, char **ret_json);
};

struct page_options {
    const char *listen;        /* "127.0.0.1:7070" */
    const char *allowed_hosts; /* further names, comma-separated, for reverse proxies; NULL: none */
    bool without_ui;           /* the API and /metrics alone: `sonde agent` */
};

struct page;

/* Listens and serves on threads of its own until page_free. -EADDRINUSE, -EINVAL (address), -ENOPKG (no libmicrohttpd),
 * ... `data` is borrowed. */
int page_start(const struct page_options *options, const struct page_data *data, struct page **ret);
uint16_t page_port(const struct page *p);
void page_free(struct page *p);
DEFINE_FREEP(page)
