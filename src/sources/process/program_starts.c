/* Loads probes/process.bpf.c and reads its table; see program_starts.h. */
#include "sources/process/program_starts.h"

#include "sources/attach/map_access.h"
#include "sources/tables/shared_tables.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "probes/program_start.h"
#include "process.skel.h"

#include <errno.h>
#include <stdlib.h>

struct program_starts {
    struct process_bpf *bpf;
};

void program_starts_free(struct program_starts *s)
{
    if (!s)
        return;
    process_bpf__destroy(s->bpf);
    free(s);
}

int program_starts_new(struct program_starts **ret)
{
    _cleanup_(program_starts_freep) struct program_starts *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    libbpf_set_print(NULL);
    s->bpf = process_bpf__open_and_load();
    if (!s->bpf)
        return -errno;
    int r = process_bpf__attach(s->bpf);
    if (r < 0)
        return r;
    *ret = take_ptr(s);
    return 0;
}

bool program_starts_find(const struct program_starts *s, uint32_t pid, uint64_t since_ns, struct program_start *ret)
{
    struct program_start_entry entry;
    if (bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.starts), &pid, &entry) < 0 || entry.exec_ns < since_ns)
        return false;
    *ret = (struct program_start){.mount_namespace = entry.mount_namespace, .lacks_service = entry.lacks_service};
    return true;
}

void program_starts_runs(const struct program_starts *s, uint64_t *ret_runs, uint64_t *ret_run_time_ns)
{
    struct program_start_stats sum = {0};
    map_sum_counters(bpf_map__fd(s->bpf->maps.stats_of_starts), &sum, sizeof(sum));
    *ret_runs = sum.runs;
    *ret_run_time_ns = sum.run_time_ns;
}

size_t program_starts_bytes(const struct program_starts *s)
{
    return shared_tables_bytes_beside(NULL, s->bpf->obj);
}
