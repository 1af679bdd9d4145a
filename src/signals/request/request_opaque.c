/* Differences of the kernel's counts, by protocol; see request_opaque.h. */
#include "signals/request/request_opaque.h"

#include "model/opaque_port.h"
#include "resolve/process/processes.h"
#include "signals/signal.h"
#include "sources/request/request.h"

#include <linux/types.h>

#include "probes/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SWEEP_NS 250000000ull
#define IDLE_NS  (600 * 1000000000ull)

/* Of so many reads one begins as a TLS record does: a program may read a record in several pieces. Random bytes do so
 * once in a million reads. */
#define READS_PER_TLS_RECORD 16

/* Of a process whose plaintext is read: handshakes until its first call of OpenSSL. More than that is opaque. */
#define HANDSHAKE_BYTES 65536

struct counted_place {
    uint64_t name; /* 0: none */
    struct request_opaque counts;
    uint64_t changed_ns;
    char process[64];
};

struct request_opaque_counts {
    const struct signal_services *services;
    void *source;
    uint64_t swept_ns, overflow_bytes;
    struct counted_place places[REQUEST_OPAQUE_MAX];
};

int request_opaque_counts_new(const struct signal_services *services, void *source, struct request_opaque_counts **ret)
{
    struct request_opaque_counts *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    o->services = services;
    o->source = source;
    *ret = o;
    return 0;
}

void request_opaque_counts_free(struct request_opaque_counts *o)
{
    free(o);
}

static enum opaque_protocol protocol_of(const struct request_opaque *counts)
{
    return (uint64_t)counts->tls_reads * READS_PER_TLS_RECORD > counts->reads ? OPAQUE_TLS : OPAQUE_UNKNOWN;
}

static void name_process(const struct request_opaque_counts *o, const struct request_opaque *counts, char *out,
                         size_t size)
{
    struct processes *processes = o->services->processes;
    const struct process *process = processes ? processes_find(processes, counts->pid, 0) : NULL;
    const char *service = process ? processes_resource(processes, process)->service_name : "";
    if (service[0])
        snprintf(out, size, "%s", service);
    else
        snprintf(out, size, "%.16s", counts->comm);
}

static bool is_handshake(const struct request_opaque_counts *o, const struct request_opaque *counts)
{
    return counts->received + counts->sent < HANDSHAKE_BYTES && protocol_of(counts) == OPAQUE_TLS &&
           request_source_reads_tls(o->source, counts->pid);
}

static void take_place(struct request_opaque_counts *o, uint32_t number, uint64_t now_ns)
{
    struct counted_place *place = &o->places[number];
    struct request_opaque now;
    uint64_t name;
    if (!request_source_read_opaque(o->source, number, &name, &now)) {
        place->name = 0;
        return;
    }
    if (place->name != name) {
        *place = (struct counted_place){.name = name, .changed_ns = now_ns};
        name_process(o, &now, place->process, sizeof(place->process));
    }
    if (is_handshake(o, &now))
        return;
    const uint64_t bytes = now.received + now.sent - place->counts.received - place->counts.sent;
    if (bytes) {
        o->services->emit_opaque(o->services->pipeline,
                                 &(struct opaque_traffic){.time_ns = now_ns,
                                                          .port = now.port,
                                                          .protocol = protocol_of(&now),
                                                          .process = place->process,
                                                          .bytes = bytes,
                                                          .connections = now.connections - place->counts.connections});
        place->counts = now;
        place->changed_ns = now_ns;
    } else if (now_ns - place->changed_ns > IDLE_NS) {
        request_source_forget_opaque(o->source, number);
        place->name = 0;
    }
}

void request_opaque_counts_sweep(struct request_opaque_counts *o, uint64_t now_ns)
{
    if (now_ns - o->swept_ns < SWEEP_NS)
        return;
    o->swept_ns = now_ns;
    for (uint32_t i = 0; i < REQUEST_OPAQUE_MAX; i++)
        take_place(o, i, now_ns);
    const uint64_t overflow = request_source_opaque_overflow(o->source);
    if (overflow != o->overflow_bytes)
        o->services->emit_opaque(
            o->services->pipeline,
            &(struct opaque_traffic){.time_ns = now_ns, .process = "", .bytes = overflow - o->overflow_bytes});
    o->overflow_bytes = overflow;
}
