/* Loads probes/process.bpf.c and reads its table; see environments.h. */
#include "sources/process/environments.h"

#include "sources/attach/map_access.h"
#include "sources/tables/shared_tables.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "probes/process_environment.h"
#include "process.skel.h"

#include <errno.h>
#include <stdlib.h>

struct environments {
    struct process_bpf *bpf;
    struct process_environment_stats *stats; /* per possible CPU */
    int cpu_count;
};

void environments_free(struct environments *e)
{
    if (!e)
        return;
    process_bpf__destroy(e->bpf);
    free(e->stats);
    free(e);
}

int environments_new(struct environments **ret)
{
    _cleanup_(environments_freep) struct environments *e = calloc(1, sizeof(*e));
    if (!e)
        return -ENOMEM;
    libbpf_set_print(NULL);
    e->cpu_count = libbpf_num_possible_cpus();
    if (e->cpu_count <= 0)
        return -ENODEV;
    e->stats = calloc((size_t)e->cpu_count, sizeof(*e->stats));
    if (!e->stats)
        return -ENOMEM;
    e->bpf = process_bpf__open_and_load();
    if (!e->bpf)
        return -errno;
    int r = process_bpf__attach(e->bpf);
    if (r < 0)
        return r;
    *ret = take_ptr(e);
    return 0;
}

bool environments_lack_service(const struct environments *e, uint32_t pid, uint64_t since_ns)
{
    uint64_t exec_ns;
    return bpf_map_lookup_elem(bpf_map__fd(e->bpf->maps.without_service), &pid, &exec_ns) == 0 && exec_ns >= since_ns;
}

void environments_runs(const struct environments *e, uint64_t *ret_runs, uint64_t *ret_run_time_ns)
{
    struct process_environment_stats sum = {0};
    map_sum_counters(bpf_map__fd(e->bpf->maps.environment_stats), e->stats, e->cpu_count, &sum, sizeof(sum));
    *ret_runs = sum.runs;
    *ret_run_time_ns = sum.run_time_ns;
}

size_t environments_bytes(const struct environments *e)
{
    return shared_tables_bytes_beside(NULL, e->bpf->obj);
}
