/* The agent's page over HTTP: UI, API, /metrics, /healthz, on a network address and on a Unix socket. On the former,
 * without tokens, only names of this host are accepted in the Host header (DNS rebinding). Independent of the agent:
 * all data comes through `struct page_data`, whose functions are called from HTTP threads, several at once. Results are
 * owned by the caller; functions return 0 or -errno. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "model/connection_end.h"
#include "model/coverage.h"
#include "model/heatmap.h"
#include "model/hotspots.h"
#include "model/metric.h"
#include "model/profile.h"
#include "model/request.h"
#include "model/request_route.h"
#include "model/service_call.h"
#include "serve/local_socket.h"

#include <stdbool.h>
#include <stdint.h>

struct page_data {
    void *context;
    /* The profile of the last `seconds`, of the filter's time type. -EOPNOTSUPP: off-CPU time is not recorded. */
    int (*profile)(void *context, uint64_t seconds, const struct profile_filter *filter, struct profile **ret);
    /* The profile, and the heatmap, of [from_ns, to_ns) of CLOCK_MONOTONIC, extended to whole 20 ms slots and to whole
     * seconds respectively. -ERANGE: entirely in the future; -ENODATA (profile only): samples are no longer kept, are
     * kept at a coarser resolution only, or the agent was not running. */
    int (*region)(void *context, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                  struct profile **ret);
    int (*heatmap)(void *context, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   struct heatmap **ret);
    /* Functions over time, extended to whole windows of some seconds. -ERANGE as above. */
    int (*hotspots)(void *context, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                    const struct hotspots_options *options, struct hotspots **ret);
    /* At most `max` of the chosen requests of the last `seconds`. The caller frees the array and each element. */
    int (*requests)(void *context, uint64_t seconds, size_t max, enum request_choice which, struct request ***ret,
                    size_t *ret_count);
    /* The routes with requests in the last `seconds`, most time lost first. The caller frees the array. */
    int (*routes)(void *context, uint64_t seconds, struct request_route **ret, size_t *ret_count);
    /* The calls between services in the last `seconds`, those waited for longest first. The caller frees the array. */
    int (*calls)(void *context, uint64_t seconds, struct service_call **ret, size_t *ret_count);
    /* The events of the last `seconds`, newest first, at most `max`: objects of export/node_event_json.h, separated by
     * commas. */
    int (*events)(void *context, uint64_t seconds, size_t max, struct buf *out);
    /* The observed part of the last `seconds`. */
    void (*coverage)(void *context, enum coverage_subject subject, uint64_t seconds, struct coverage *ret);
    int (*metrics)(void *context, struct metric_set *set);
    /* Called with the bytes of each reply when it begins, and with the same number below 0 when it ends: the process
     * holds them, but not for the agent. */
    void (*hold)(void *context, int64_t bytes);
    /* Called for each connection that the page closes to keep within its limits. Must not block. */
    void (*connection_ended)(void *context, enum connection_end end);
    /* How long ago the agent last did its work. */
    uint64_t (*idle_ns)(void *context);
    /* One JSON object, which web/src/health.tsx reads: {"version","host","kernel","waits" (if off-CPU time is
     * recorded),"now_ms","uptime_seconds", "samples","sample_hz","stacks","incomplete_stacks","sampling_rules" (if
     * there are any):[{"rule","sample_hz","found","samples","ticks"}],"losses":{reason:
     * count},"budget":{"detail","one_cpu_share","one_cpu_share_allowed","memory_bytes","memory_bytes_allowed",
     * "reduced":["CPU samples at half the rate"],"complete":["off-CPU
     * time"],"outlook"},"probes":[{"probe","attached","method","fallback_reason","limitation"}]}. The caller frees it.
     */
    int (*status)(void *context, char **ret_json);
};

#define PAGE_API_VERSION 1 /* of the paths below /api/v1/ */

/* Who may read the network address, and how: what page_reload can change. Paths; NULL: none. */
struct page_access {
    const char *token_file;                /* clients need one of its tokens (tokens.h) */
    const char *tls_certificate, *tls_key; /* TLS (certificate.h); both or none */
};

struct page_options {
    const char *listen;                 /* "127.0.0.1:7070"; NULL: no network address */
    struct local_socket_options socket; /* its path NULL: no Unix socket */
    struct page_access access;
    const char *allowed_hosts; /* further names, comma-separated, for reverse proxies; NULL: none */
    bool without_ui;           /* API and /metrics only: `sonde agent` */
    uint64_t request_ns;       /* within which a client must send a request; 0: 30 s */
    uint64_t reply_ns;         /* within which a reply must be read; 0: 60 s */
};

struct page;

/* Whether page_start can use these files: tokens, certificate and key. 0, or -errno after the reason was logged.
 * Without libmicrohttpd the certificate is not checked. */
int page_check_access(const struct page_access *access);
/* Listens and serves on its own threads until page_free. Borrows `data`. 0, or -errno after the reason was logged. */
int page_start(const struct page_options *options, const struct page_data *data, struct page **ret);
/* Reads the tokens and the certificate again, or other ones. Whether the address speaks TLS stays as it is. 0, or
 * -errno after the reason was logged: the tokens stay as they are. This and page_tick: on one thread. */
int page_reload(struct page *p, const struct page_access *access);
/* To be called once a second: reads tokens and certificate if they have changed, and ends connections whose time is
 * over. */
void page_tick(struct page *p);
/* The port of its network address; also when `listen` gave port 0. */
uint16_t page_port(const struct page *p);
/* Whether its network address speaks TLS. */
bool page_is_encrypted(const struct page *p);
/* Whether only programs of this machine reach it. */
bool page_is_local(const struct page *p);
/* The path of its Unix socket; NULL: none. */
const char *page_socket(const struct page *p);
/* Stops the server; waits for replies in progress. */
void page_free(struct page *p);
DEFINE_FREEP(page)
