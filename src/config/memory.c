/* See memory.h. Sizes are measured: /proc/self/smaps, and the kernel's memlock of each map. */
#include "config/memory.h"

#include "config/config.h"
#include "signals/signals.h"

/* The program and its libraries, the heap except its users with a part of their own, shared tables of a fixed size, and
 * short-lived memory: the path of a request, a reply, a packet. */
#define BASE_BYTES (18u << 20)

/* Scratch memory of each program that walks stacks. */
#define UNWIND_CPU_BYTES (128u << 10)

static const unsigned resolver_parts = MEMORY_PART_BIT(MEMORY_CODE) | MEMORY_PART_BIT(MEMORY_SYMBOLS) |
                                       MEMORY_PART_BIT(MEMORY_PROCESSES) | MEMORY_PART_BIT(MEMORY_UNWIND_CACHE) |
                                       MEMORY_PART_BIT(MEMORY_JIT);

struct needs {
    unsigned parts; /* MEMORY_PART_BIT */
    uint64_t fixed_bytes, recorder_bytes;
};

static void add_signal(struct needs *n, const struct config *config, const struct signal *signal, uint64_t cpus)
{
    const struct signal_memory *m = &signal->memory;
    n->parts |= MEMORY_PART_BIT(m->ring) | MEMORY_PART_BIT(m->tables) | MEMORY_PART_BIT(m->kept);
    n->fixed_bytes += m->fixed_bytes;
    if (signal->flags & SIGNAL_UNWINDS) {
        n->parts |= MEMORY_PART_BIT(MEMORY_UNWIND_TABLES);
        n->fixed_bytes += UNWIND_CPU_BYTES * cpus;
    }
    if (signal->recorder_bytes) {
        n->parts |= MEMORY_PART_BIT(MEMORY_RECORDER);
        n->recorder_bytes = signal->recorder_bytes(config_signal(config, signal));
    }
}

void memory_plan_make(const struct config *config, uint64_t whole_bytes, long cpus, bool keeps_results,
                      struct memory_plan *ret)
{
    struct needs n = {.parts = resolver_parts, .fixed_bytes = BASE_BYTES};
    for (size_t i = 0; all_signals[i]; i++)
        if (config_enables(config, all_signals[i]))
            add_signal(&n, config, all_signals[i], cpus > 0 ? (uint64_t)cpus : 1);
    if (keeps_results)
        n.parts |= MEMORY_PART_BIT(MEMORY_WINDOWS) | MEMORY_PART_BIT(MEMORY_REQUESTS);
    if (keeps_results && config && config->otlp_profiles_endpoint[0])
        n.parts |= MEMORY_PART_BIT(MEMORY_EXPORT_QUEUE) | MEMORY_PART_BIT(MEMORY_EXPORT_PROFILES);
    if (keeps_results && config && config->otlp_traces_endpoint[0])
        n.parts |= MEMORY_PART_BIT(MEMORY_SPAN_QUEUE);
    if (keeps_results && config && config->otlp_logs_endpoint[0])
        n.parts |= MEMORY_PART_BIT(MEMORY_EVENT_QUEUE);
    memory_plan_divide(whole_bytes, n.fixed_bytes, n.parts, n.recorder_bytes, ret);
}
