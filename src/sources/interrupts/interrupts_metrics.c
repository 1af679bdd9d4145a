/* The counters of source "interrupts", and its metrics. */
#include "sources/interrupt_names.h"
#include "sources/interrupts/interrupts_private.h"
#include "sources/run_timers.h"

#include "interrupts.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>

static void add_cpu(struct interrupts_cpu *sum, const struct interrupts_cpu *cpu)
{
    sum->records_lost += cpu->records_lost;
    for (size_t i = 0; i < INTERRUPTS_SOFTIRQS; i++) {
        sum->softirqs[i].ns += cpu->softirqs[i].ns;
        for (size_t k = 0; k < INTERRUPTS_BUCKETS; k++)
            sum->softirqs[i].counts[k] += cpu->softirqs[i].counts[k];
    }
    for (size_t i = 0; i < INTERRUPTS_VECTORS; i++) {
        sum->vectors[i].count += cpu->vectors[i].count;
        sum->vectors[i].ns += cpu->vectors[i].ns;
    }
}

struct interrupts_cpu interrupts_sum(const struct interrupts_source *s)
{
    const int fd = bpf_map__fd(s->bpf->maps.cpus);
    struct interrupts_cpu sum = {0}, cpu;
    for (uint32_t i = 0; i < s->cpu_count; i++)
        if (bpf_map_lookup_elem(fd, &i, &cpu) == 0)
            add_cpu(&sum, &cpu);
    return sum;
}

static void put_softirq(struct metric_set *set, uint32_t number, const struct interrupts_softirq *s)
{
    static const double bounds_ns[] = INTERRUPTS_BOUNDS_NS;
    double bounds[INTERRUPTS_BUCKETS - 1];
    uint64_t counts[INTERRUPTS_BUCKETS], sum = 0;
    for (size_t i = 0; i < INTERRUPTS_BUCKETS; i++) {
        if (i < INTERRUPTS_BUCKETS - 1)
            bounds[i] = bounds_ns[i] / 1e9;
        counts[i] = s->counts[i];
        sum += counts[i];
    }
    if (sum)
        metric_add_histogram(set, "sonde_interrupts_softirq_seconds", "seconds", "How long softirqs ran, by softirq.",
                             bounds, counts, array_size(bounds), (double)s->ns / 1e9,
                             METRIC_LABELS({"softirq", interrupt_static_name(number)}));
}

static void put_interrupt(struct metric_set *set, const char *irq, const char *name, uint64_t count, uint64_t ns)
{
    if (!count)
        return;
    metric_add(set, "sonde_interrupts_handled", METRIC_COUNTER, "", "Interrupts, by interrupt line or vector.",
               (double)count, METRIC_LABELS({"irq", irq}, {"name", name}));
    metric_add(set, "sonde_interrupts_seconds", METRIC_COUNTER, "seconds",
               "Time spent in handlers of interrupts, by interrupt line or vector.", (double)ns / 1e9,
               METRIC_LABELS({"irq", irq}, {"name", name}));
}

static void put_lines(const struct interrupts_source *s, struct metric_set *set)
{
    for (uint32_t i = 0; i < INTERRUPTS_LINES; i++) {
        const struct interrupts_line *line = &s->bpf->bss->lines[i];
        char irq[16] = "other", name[INTERRUPT_NAME_BYTES] = "other";
        if (i < INTERRUPTS_LINES - 1) {
            snprintf(irq, sizeof(irq), "%u", i);
            snprintf(name, sizeof(name), "%.*s", INTERRUPT_NAME_BYTES - 1, line->name);
        }
        put_interrupt(set, irq, name, line->count, line->ns);
    }
}

void interrupts_put_metrics(const struct interrupts_source *s, struct metric_set *set)
{
    static const char *const programs[INTERRUPTS_TIMERS] = {"interrupts_softirq", "interrupts_handler",
                                                            "interrupts_vector"};
    const struct interrupts_cpu sum = interrupts_sum(s);
    for (uint32_t i = 0; i < INTERRUPTS_SOFTIRQS; i++)
        put_softirq(set, i, &sum.softirqs[i]);
    put_lines(s, set);
    for (uint32_t i = 0; i < INTERRUPTS_VECTORS; i++)
        put_interrupt(set, interrupt_vector_symbol((enum interrupt_vector)i),
                      interrupt_static_name(INTERRUPT_FIRST_VECTOR + i), sum.vectors[i].count, sum.vectors[i].ns);
    run_timers_put(s->bpf->bss->run_timers, programs, INTERRUPTS_TIMERS, set);
}
