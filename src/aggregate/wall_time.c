/* Profiles of CPU time, off-CPU time and wall-clock time; see wall_time.h. Off-CPU monitoring is shed first, so the
 * time not monitored of wall-clock profiles is that of the waits. */
#include "aggregate/wall_time.h"

#include <errno.h>

typedef int windows_query(struct windows *w, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                          struct profile **ret);

/* Start and duration are those of the CPU samples, if there are any. */
static int add_waits(struct profile *cpu, const struct profile *waits)
{
    const struct profile *of = cpu->duration_ns ? cpu : waits;
    const uint64_t start_unix_ns = of->start_unix_ns, duration_ns = of->duration_ns;
    if (profile_merge(cpu, waits, NULL) == -ENOMEM)
        return -ENOMEM;
    cpu->start_unix_ns = start_unix_ns;
    cpu->duration_ns = duration_ns;
    cpu->not_observed_ns = waits->not_observed_ns;
    cpu->type = &sample_type_wall;
    return 0;
}

static int query_windows(struct wall_time t, windows_query *ask, uint64_t from_ns, uint64_t to_ns,
                         const struct profile_filter *filter, struct profile **ret)
{
    _cleanup_(profile_freep) struct profile *cpu = NULL, *waits = NULL;
    if (filter->type == &sample_type_cpu)
        return ask(t.cpu, from_ns, to_ns, filter, ret);
    if (!t.waits)
        return -EOPNOTSUPP;
    if (filter->type == &sample_type_off_cpu)
        return ask(t.waits, from_ns, to_ns, filter, ret);
    int r = ask(t.cpu, from_ns, to_ns, filter, &cpu);
    if (r == 0)
        r = ask(t.waits, from_ns, to_ns, filter, &waits);
    if (r == 0)
        r = add_waits(cpu, waits);
    if (r == 0)
        *ret = take_ptr(cpu);
    return r;
}

static void set_observed(struct wall_time t, uint64_t from_ns, uint64_t to_ns, struct profile *p)
{
    windows_set_observed(t.waits, from_ns, to_ns, p);
    if (p->type != &sample_type_wall)
        return;
    const uint64_t waits_observed_ns = p->duration_ns, waits_not_observed_ns = p->not_observed_ns;
    windows_set_observed(t.cpu, from_ns, to_ns, p);
    p->not_observed_ns = waits_not_observed_ns;
    if (!p->duration_ns)
        p->duration_ns = waits_observed_ns;
}

int wall_time_span(struct wall_time t, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                   struct profile **ret)
{
    return query_windows(t, windows_snapshot, from_ns, to_ns, filter, ret);
}

int wall_time_region(struct wall_time t, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns,
                     const struct profile_filter *filter, struct profile **ret)
{
    if (from_ns > now_ns)
        return -ERANGE;
    if (filter->type == &sample_type_cpu)
        return windows_region(t.cpu, from_ns, to_ns < now_ns ? to_ns : now_ns, filter, ret);
    from_ns -= from_ns % t.slot_ns;
    to_ns += (t.slot_ns - to_ns % t.slot_ns) % t.slot_ns;
    int r = query_windows(t, windows_region, from_ns, to_ns, filter, ret);
    if (r == 0 && to_ns > now_ns) /* the last slot is still being filled */
        set_observed(t, from_ns, now_ns, *ret);
    return r;
}
