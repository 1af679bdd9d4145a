/* Block devices; see io_block.h. The kernel's own start time of a request is used for the time in the queue:
 * most requests are given to the device at once, and are never inserted into a queue. */
#include "sources/io/io_block.h"

#include "sources/attach/map_access.h"
#include "sources/attach/map_walk.h"
#include "sources/attach/trace_parameters.h"
#include "sources/io/io_skeleton.h"

#include "base/cleanup.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- loading ---- */

bool io_block_choose(struct io_bpf *bpf, const struct btf *kernel, bool wanted)
{
    bool passes_queue = false;
    const bool is_chosen = wanted && kernel && trace_passes_block_requests(kernel, &passes_queue);
    struct bpf_program *const programs[] = {bpf->progs.io_device_issued, bpf->progs.io_device_completed};
    struct bpf_map *const maps[] = {bpf->maps.device_counters, bpf->maps.device_requests, bpf->maps.device_names};
    for (size_t i = 0; i < array_size(programs); i++) {
        bpf_program__set_autoload(programs[i], is_chosen);
        bpf_program__set_autoattach(programs[i], false); /* an error would detach all */
    }
    for (size_t i = 0; i < array_size(maps); i++)
        (void)bpf_map__set_autocreate(maps[i], is_chosen);
    bpf->rodata->issue_passes_queue = passes_queue;
    return is_chosen;
}

/* Adds the entries of IO_OTHER first, so that requests that do not fit can always be counted. */
static int fill_other_devices(struct io_bpf *bpf)
{
    static const struct io_device_counters none;
    struct io_device_key key = {.cgroup_id = IO_OTHER};
    for (key.operation = IO_DEVICE_READ; key.operation < IO_DEVICE_OPERATIONS; key.operation++)
        if (bpf_map_update_elem(bpf_map__fd(bpf->maps.device_counters), &key, &none, BPF_ANY) < 0)
            return -errno;
    return 0;
}

int io_block_attach(struct io_bpf *bpf)
{
    int r = fill_other_devices(bpf);
    if (r < 0)
        return r;
    bpf->links.io_device_completed = bpf_program__attach(bpf->progs.io_device_completed);
    if (!bpf->links.io_device_completed)
        return -errno;
    bpf->links.io_device_issued = bpf_program__attach(bpf->progs.io_device_issued);
    if (bpf->links.io_device_issued)
        return 0;
    r = -errno;
    bpf_link__destroy(bpf->links.io_device_completed);
    bpf->links.io_device_completed = NULL;
    return r;
}

static bool has_cgroups(const struct btf *kernel)
{
    return kernel && btf__find_by_name_kind(kernel, "blkcg_gq", BTF_KIND_STRUCT) >= 0;
}

void io_block_report(struct attach_entry *entry, const struct btf *kernel, int error)
{
    static const char method[] = "issue and completion of requests";
    entry->attached = error == 0;
    if (error < 0) {
        attach_entry_refused(entry, method, error);
        snprintf(entry->limitation, sizeof(entry->limitation), "no requests of block devices are counted");
        return;
    }
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    if (!has_cgroups(kernel))
        snprintf(entry->limitation, sizeof(entry->limitation),
                 "jobs are not known: the kernel has no CONFIG_BLK_CGROUP");
}

/* ---- tables ---- */

static bool is_loaded(const struct io_bpf *bpf)
{
    return bpf_map__fd(bpf->maps.device_counters) >= 0;
}

int io_block_read(struct io_bpf *bpf, const struct io_device_reader *reader)
{
    const int fd = bpf_map__fd(bpf->maps.device_counters);
    struct io_device_key key;
    struct io_device_counters counters;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, &counters);) {
        const bool is_final =
            reader->is_final(reader->context, &key, &counters) && map_take_element(fd, &key, &counters);
        reader->take(reader->context, &key, &counters, is_final);
    }
    return walk.error;
}

bool io_block_name(struct io_bpf *bpf, uint32_t device, struct io_device_name *ret)
{
    return is_loaded(bpf) && bpf_map_lookup_elem(bpf_map__fd(bpf->maps.device_names), &device, ret) == 0;
}

uint64_t io_block_sweep(struct io_bpf *bpf, uint64_t before_ns)
{
    const int fd = bpf_map__fd(bpf->maps.device_requests);
    uint64_t key, swept = 0;
    struct io_device_request request;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, &request);)
        if (request.issued_ns < before_ns && bpf_map_delete_elem(fd, &key) == 0)
            swept++;
    return swept;
}
