/* Sums of run timers over CPUs; see run_timers.h. */
#include "sources/run_timers.h"

#include "sources/source.h"

/* The programs add to them meanwhile. */
static struct run_timer sum_timer(run_timers timers, size_t timer)
{
    struct run_timer sum = {0};
    for (int cpu = 0; cpu < RUN_TIMER_CPUS; cpu++) {
        const volatile struct run_timer *t = &timers[cpu][timer];
        sum.runs += t->runs;
        sum.sampled_ns += t->sampled_ns;
    }
    return sum;
}

uint64_t run_timers_ns(run_timers timers, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += sum_timer(timers, i).sampled_ns * RUN_TIMER_EVERY;
    return sum;
}

void run_timers_put(run_timers timers, const char *const *names, size_t count, struct metric_set *set)
{
    for (size_t i = 0; i < count; i++) {
        const struct run_timer sum = sum_timer(timers, i);
        source_put_runs(set, names[i], sum.runs, sum.sampled_ns * RUN_TIMER_EVERY);
    }
}
