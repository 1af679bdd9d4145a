/* Fires the probes. The provider is never freed, only unloaded, because a thread may leave a request
 * (thread_context.c) after the request and its manager have ended. A program that unloads the library (dlclose) leaks
 * some 20 KiB. */
#include "probes.h"

#include "node.h"

#include <sonde/probe.h>

#include <assert.h>
#include <string.h>

enum { REQUEST_START, REQUEST_END, THREAD_ENTER, THREAD_LEAVE, PROBES };

#define IDENTITY "u64 trace_id_high, u64 trace_id_low, u64 span_id, u64 id"

static const struct {
    const char *name, *arguments;
} declared[PROBES] = {
    [REQUEST_START] = {"request_start", IDENTITY ", str model, str request_id"},
    [REQUEST_END] = {"request_end", IDENTITY ", i32 status, str request_id"},
    [THREAD_ENTER] = {"thread_enter", IDENTITY},
    [THREAD_LEAVE] = {"thread_leave", IDENTITY},
};

static const uint64_t no_listeners;
_Atomic(const uint64_t *) trace_listeners = &no_listeners;

static struct sonde_provider *provider;
static struct sonde_probe *probes[PROBES];

/* Creates all four probes, or none. */
static void create_provider(void)
{
    struct sonde_provider *created = NULL;
    int r = sonde_provider_new("sonde_trace", &created);
    for (int i = 0; i < PROBES && r == 0; i++)
        r = sonde_probe_add(created, declared[i].name, declared[i].arguments, &probes[i]);
    if (r == 0)
        provider = created;
    else
        sonde_provider_free(created);
}

void trace_probes_load(void)
{
    if (!provider)
        create_provider();
    if (!provider || sonde_provider_load(provider) < 0)
        return;
    const volatile uint16_t *first = probes[0]->semaphore;
    static_assert(PROBES * sizeof(*first) == sizeof(no_listeners), "one word");
    for (int i = 0; i < PROBES; i++)
        if (probes[i]->semaphore != first + i || (uintptr_t)first % sizeof(no_listeners) != 0)
            return;
    atomic_store_explicit(&trace_listeners, (const uint64_t *)(uintptr_t)first, memory_order_release);
}

void trace_probes_unload(void)
{
    if (provider)
        sonde_provider_unload(provider);
}

/* The ids as numbers that print as W3C writes them. */
struct numbers {
    uint64_t high, low, span_id;
};

static uint64_t number_of(const void *eight_bytes)
{
    uint64_t number;
    memcpy(&number, eight_bytes, sizeof(number));
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap64(number) : number;
}

static struct numbers numbers_of(const struct trace_identity *who)
{
    return (struct numbers){number_of(who->trace_id), number_of(who->trace_id + 8), number_of(&who->span_id)};
}

void trace_probes_start(const struct sonde_trace *t)
{
    const struct trace_identity who = trace_identity(t);
    const struct numbers n = numbers_of(&who);
    const char *request_id = t->request_id ? t->request_id : "";
    sonde_probe_fire(probes[REQUEST_START], n.high, n.low, n.span_id, who.id, t->model_name, request_id);
}

void trace_probes_end(const struct sonde_trace *t)
{
    const struct trace_identity who = trace_identity(t);
    const struct numbers n = numbers_of(&who);
    const char *request_id = t->request_id ? t->request_id : "";
    sonde_probe_fire(probes[REQUEST_END], n.high, n.low, n.span_id, who.id, (int)t->status, request_id);
}

void trace_probes_enter(const struct trace_identity *who)
{
    const struct numbers n = numbers_of(who);
    sonde_probe_fire(probes[THREAD_ENTER], n.high, n.low, n.span_id, who->id);
}

void trace_probes_leave(const struct trace_identity *who)
{
    const struct numbers n = numbers_of(who);
    sonde_probe_fire(probes[THREAD_LEAVE], n.high, n.low, n.span_id, who->id);
}
