/* Profiles of wall-clock time; see wall_time.h. Off-CPU monitoring is shed first, so the time that was not monitored
 * equals the unmonitored time of the off-CPU window. */
#include "aggregate/wall_time.h"

#include <errno.h>

typedef int window_query(struct window *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                         struct profile **ret);

/* Adds `off_cpu` to `cpu`. Start and duration come from the CPU samples, if there are any. */
static int add_off_cpu_time(struct profile *cpu, const struct profile *off_cpu)
{
    const struct profile *of = cpu->duration_ns ? cpu : off_cpu;
    const uint64_t start_unix_ns = of->start_unix_ns, duration_ns = of->duration_ns;
    if (profile_merge(cpu, off_cpu, NULL) == -ENOMEM)
        return -ENOMEM;
    cpu->start_unix_ns = start_unix_ns;
    cpu->duration_ns = duration_ns;
    cpu->not_observed_ns = off_cpu->not_observed_ns;
    cpu->type = &sample_type_wall;
    return 0;
}

static int query_both(struct wall_time t, window_query *query, uint64_t from_ns, uint64_t to_ns,
                      const struct profile_filter *filter, struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *cpu = NULL, *off_cpu = NULL;
    if (!t.cpu || !t.off_cpu)
        return -EOPNOTSUPP;
    int r = query(t.cpu, from_ns, to_ns, filter, &cpu);
    if (r == 0)
        r = query(t.off_cpu, from_ns, to_ns, filter, &off_cpu);
    if (r == 0)
        r = add_off_cpu_time(cpu, off_cpu);
    if (r == 0)
        *ret = take_ptr(cpu);
    return r;
}

static void set_observed(struct wall_time t, uint64_t from_ns, uint64_t to_ns, struct profile *p)
{
    window_set_observed(t.off_cpu, from_ns, to_ns, p);
    const uint64_t observed_ns = p->duration_ns, not_observed_ns = p->not_observed_ns;
    window_set_observed(t.cpu, from_ns, to_ns, p);
    p->not_observed_ns = not_observed_ns;
    if (!p->duration_ns)
        p->duration_ns = observed_ns;
}

int wall_time_snapshot(struct wall_time t, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                       struct profile **ret)
{
    return query_both(t, window_snapshot, from_ns, to_ns, filter, ret);
}

int wall_time_region(struct wall_time t, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns,
                     const struct profile_filter *filter, struct profile **ret)
{
    int r = query_both(t, window_region, from_ns, to_ns, filter, ret);
    if (r == 0 && to_ns > now_ns)
        set_observed(t, from_ns, now_ns, *ret);
    return r;
}
