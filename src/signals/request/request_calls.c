/* Differences of the kernel's counts, with the names of services; see request_calls.h. */
#include "signals/request/request_calls.h"

#include "base/peer.h"
#include "diagnose/flight/client_calls.h"
#include "model/request.h"
#include "model/service_call.h"
#include "resolve/process/processes.h"
#include "signals/request/request_names.h"
#include "signals/signal.h"
#include "sources/request/request.h"

#include <linux/types.h>

#include "probes/request.h"
#include "probes/request/service_call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <uthash.h>

#define SWEEP_NS 1000000000ull
#define IDLE_NS  (60 * 1000000000ull)

_Static_assert(SERVICE_CALL_BUCKETS == SERVICE_CALL_DURATIONS, "a bucket each");

struct counted_calls {
    struct service_call_key key;
    struct service_call_counts counts;
    uint64_t changed_ns;
    char client[SERVICE_CALL_NAME_BYTES], server[SERVICE_CALL_NAME_BYTES]; /* "": not known yet */
    UT_hash_handle hh;
};

struct request_calls {
    const struct signal_services *services;
    const struct served_ports *served;
    void *source;
    uint64_t swept_ns;
    struct counted_calls *counted;
};

int request_calls_new(const struct signal_services *services, void *source, const struct served_ports *served,
                      struct request_calls **ret)
{
    struct request_calls *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    *c = (struct request_calls){.services = services, .served = served, .source = source};
    *ret = c;
    return 0;
}

static void forget_counted(struct request_calls *c, struct counted_calls *counted)
{
    HASH_DEL(c->counted, counted);
    free(counted);
}

void request_calls_free(struct request_calls *c)
{
    struct counted_calls *counted, *next;
    if (!c)
        return;
    HASH_ITER (hh, c->counted, counted, next)
        forget_counted(c, counted);
    free(c);
}

/* ---- names ---- */

/* The service of a process as in requests; `port` 0: without its port. */
static void name_service(const struct request_calls *c, uint32_t pid, uint16_t port, const char *comm,
                         char out[SERVICE_CALL_NAME_BYTES])
{
    struct processes *processes = c->services->processes;
    const struct process *process = processes ? processes_find(processes, pid, 0) : NULL;
    const struct resource *resource = process ? processes_resource(processes, process) : NULL;
    const char *name = resource && resource->service_name[0] ? resource->service_name : comm;
    char text[REQUEST_SERVICE_BYTES];
    if (name[0])
        snprintf(out, SERVICE_CALL_NAME_BYTES, "%.*s", SERVICE_CALL_NAME_BYTES - 1,
                 request_service_text(name, resource ? resource->systemd_unit : "", port, text));
}

static void name_server(const struct request_calls *c, const struct service_address *server,
                        char out[SERVICE_CALL_NAME_BYTES])
{
    struct service_process process = {0};
    if (!server->port)
        memcpy(&process.pid, server->address, sizeof(process.pid));
    else if (!request_source_service_process(c->source, server, &process))
        return;
    process.comm[sizeof(process.comm) - 1] = '\0';
    if (process.pid)
        name_service(c, process.pid, server->port, process.comm, out);
}

static void name_address(const struct service_address *server, char out[SERVICE_CALL_ADDRESS_BYTES])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    const bool is_ipv4 = memcmp(server->address, mapped, sizeof(mapped)) == 0;
    out[0] = '\0';
    if (server->port)
        peer_text(is_ipv4 ? AF_INET : AF_INET6, server->address + (is_ipv4 ? sizeof(mapped) : 0), server->port, out,
                  SERVICE_CALL_ADDRESS_BYTES);
}

/* False: the caller is not known yet. */
static bool name_ends(const struct request_calls *c, struct counted_calls *counted)
{
    const uint32_t pid = request_name_pid(counted->key.process);
    const uint16_t port = served_ports_find(c->served, pid);
    if (!counted->client[0] && port)
        name_service(c, pid, port, "", counted->client);
    if (!counted->server[0])
        name_server(c, &counted->key.server, counted->server);
    return counted->client[0] != '\0';
}

/* ---- counts ---- */

static struct service_call_sums difference(const struct service_call_counts *now,
                                           const struct service_call_counts *before)
{
    struct service_call_sums sums = {.failed = now->failed - before->failed, .wait_ns = now->wait_ns - before->wait_ns};
    for (size_t i = 0; i < SERVICE_CALL_BUCKETS; i++)
        sums.durations[i] = now->buckets[i] - before->buckets[i];
    return sums;
}

static struct counted_calls *find_counted(struct request_calls *c, const struct service_call_key *key, uint64_t now_ns)
{
    struct counted_calls *counted;
    HASH_FIND(hh, c->counted, key, sizeof(*key), counted);
    if (counted)
        return counted;
    counted = calloc(1, sizeof(*counted));
    if (!counted)
        return NULL;
    counted->key = *key;
    counted->changed_ns = now_ns;
    HASH_ADD(hh, c->counted, key, sizeof(counted->key), counted);
    return counted;
}

static void emit_calls(struct request_calls *c, struct counted_calls *counted, const struct service_call_counts *now,
                       uint64_t now_ns)
{
    char address[SERVICE_CALL_ADDRESS_BYTES];
    const int call = (int)counted->key.call;
    if (!name_ends(c, counted))
        return;
    name_address(&counted->key.server, address);
    c->services->emit_calls(c->services->pipeline,
                            &(struct service_call_traffic){.time_ns = now_ns,
                                                           .client = counted->client,
                                                           .server = counted->server,
                                                           .address = address,
                                                           .protocol = client_call_protocol_name(call),
                                                           .kind = client_call_kind(call),
                                                           .sums = difference(now, &counted->counts)});
    counted->counts = *now;
    counted->changed_ns = now_ns;
}

static void take_counts(struct request_calls *c, const struct service_call_key *key,
                        const struct service_call_counts *now, uint64_t now_ns)
{
    struct counted_calls *counted = find_counted(c, key, now_ns);
    if (!counted)
        return;
    if (memcmp(&counted->counts, now, sizeof(*now)) != 0)
        emit_calls(c, counted, now, now_ns);
    if (now_ns - counted->changed_ns > IDLE_NS) {
        request_source_forget_service_call(c->source, key);
        forget_counted(c, counted);
    }
}

/* ---- calls over HTTP/2 ---- */

/* The network namespace of a process, for loopback addresses; 0: not known. */
static uint32_t find_network(uint32_t pid)
{
    char path[32];
    struct stat network;
    snprintf(path, sizeof(path), "/proc/%u/ns/net", pid);
    return stat(path, &network) == 0 ? (uint32_t)network.st_ino : 0;
}

static bool is_loopback(const struct service_address *a)
{
    static const uint8_t loopback[16] = {[15] = 1}, mapped[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
    return memcmp(a->address, loopback, sizeof(loopback)) == 0 || memcmp(a->address, mapped, sizeof(mapped)) == 0;
}

/* `text` is "gRPC /package.Service/Method", or "HTTP GET". */
static bool take_http2(void *context, uint64_t process, const struct service_address *server, const char *text,
                       const struct service_call_sums *sums)
{
    struct request_calls *c = context;
    const uint32_t pid = request_name_pid(process);
    struct counted_calls counted = {.key = {.process = process, .server = *server}};
    char address[SERVICE_CALL_ADDRESS_BYTES], protocol[SERVICE_CALL_PROTOCOL_BYTES];
    if (is_loopback(server))
        counted.key.server.network = find_network(pid);
    if (!name_ends(c, &counted))
        return false;
    name_address(server, address);
    snprintf(protocol, sizeof(protocol), "%.*s", (int)strcspn(text, " "), text);
    c->services->emit_calls(c->services->pipeline, &(struct service_call_traffic){.time_ns = c->swept_ns,
                                                                                  .client = counted.client,
                                                                                  .server = counted.server,
                                                                                  .address = address,
                                                                                  .protocol = protocol,
                                                                                  .kind = text + strcspn(text, " ") + 1,
                                                                                  .sums = *sums});
    return true;
}

void request_calls_sweep(struct request_calls *c, uint64_t now_ns)
{
    struct service_call_key key;
    struct service_call_counts counts;
    if (now_ns - c->swept_ns < SWEEP_NS)
        return;
    c->swept_ns = now_ns;
    _cleanup_(map_walk_end) struct map_walk walk = request_source_service_calls(c->source);
    while (map_walk_next(&walk, &key, &counts))
        take_counts(c, &key, &counts, now_ns);
    request_source_take_http2_calls(c->source, take_http2, c);
}
