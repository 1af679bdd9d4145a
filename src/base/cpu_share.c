/* A token bucket of CPU time; see cpu_share.h. */
#include "base/cpu_share.h"

void cpu_share_init(struct cpu_share *s, double of_cpu, uint64_t burst_ns, uint64_t now_ns)
{
    *s =
        (struct cpu_share){.of_cpu = of_cpu, .burst_ns = burst_ns, .saved_ns = (double)burst_ns, .refilled_ns = now_ns};
}

bool cpu_share_allows(struct cpu_share *s, uint64_t now_ns)
{
    if (now_ns > s->refilled_ns)
        s->saved_ns += (double)(now_ns - s->refilled_ns) * s->of_cpu;
    if (s->saved_ns > (double)s->burst_ns)
        s->saved_ns = (double)s->burst_ns;
    s->refilled_ns = now_ns;
    return s->of_cpu == 0 || s->saved_ns > 0;
}

bool cpu_share_is_plentiful(const struct cpu_share *s)
{
    return s->of_cpu == 0 || s->saved_ns >= (double)s->burst_ns / 2;
}

void cpu_share_spend(struct cpu_share *s, uint64_t cpu_ns)
{
    s->saved_ns -= (double)cpu_ns;
}

uint64_t cpu_share_rest_ns(uint64_t cpu_ns, unsigned parts, uint64_t least_ns)
{
    const uint64_t rest_ns = cpu_ns * parts;
    return rest_ns > least_ns ? rest_ns : least_ns;
}
