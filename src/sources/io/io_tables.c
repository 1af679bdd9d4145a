/* Reads and sweeps the tables of probes/io.bpf.c; see io.h. */
#include "sources/attach/map_access.h"
#include "sources/attach/map_walk.h"
#include "sources/io/io.h"
#include "sources/io/io_block.h"
#include "sources/io/io_private.h"
#include "sources/io/io_skeleton.h"

#include "base/cleanup.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>

#define REQUEST_LOST_NS 3600000000000ull

size_t io_source_counters_max(void *io_source)
{
    return bpf_map__max_entries(((const struct io_source *)io_source)->bpf->maps.counters);
}

size_t io_source_device_counters_max(void *io_source)
{
    return bpf_map__max_entries(((const struct io_source *)io_source)->bpf->maps.device_counters);
}

size_t io_source_mounts_max(void *io_source)
{
    return bpf_map__max_entries(((const struct io_source *)io_source)->bpf->maps.mount_names);
}

/* Reads the counters of all processes. If `is_ended` is not NULL, takes only the counters of ended processes. */
static int walk_counters(int fd, const struct io_reader *reader, io_is_ended *is_ended)
{
    struct io_key key;
    struct io_counters counters;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, &counters);) {
        const bool ends = is_ended ? key.process && is_ended(reader->context, key.process)
                                   : reader->is_final(reader->context, &key, &counters);
        const bool is_final = ends && map_take_element(fd, &key, &counters);
        if (is_final || !is_ended)
            reader->take(reader->context, &key, &counters, is_final);
    }
    return walk.error;
}

static int walk_both(const struct io_source *s, const struct io_reader *reader, io_is_ended *is_ended)
{
    const int counters = walk_counters(bpf_map__fd(s->bpf->maps.counters), reader, is_ended),
              reserve = walk_counters(bpf_map__fd(s->bpf->maps.reserve), reader, is_ended);
    return counters ?: reserve;
}

int io_source_read_errors(void *io_source, const struct io_reader *reader)
{
    const struct io_source *s = io_source;
    const int fd = bpf_map__fd(s->bpf->maps.errors);
    struct io_error_key key;
    uint64_t count;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, &count);) {
        const bool is_read = !reader->ends_errors || map_take_element(fd, &key, &count);
        if (is_read && reader->take_error)
            reader->take_error(reader->context, &key, count, reader->ends_errors);
    }
    return walk.error;
}

int io_source_read(void *io_source, const struct io_reader *reader)
{
    const int counters = walk_both(io_source, reader, NULL), errors = io_source_read_errors(io_source, reader);
    return counters ?: errors;
}

int io_source_take_ended(void *io_source, const struct io_reader *reader, io_is_ended *is_ended)
{
    return walk_both(io_source, reader, is_ended);
}

bool io_source_command(void *io_source, uint32_t process, struct io_command *ret)
{
    const struct io_source *s = io_source;
    const bool is_found = bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.process_commands), &process, ret) == 0;
    ret->text[sizeof(ret->text) - 1] = '\0';
    return is_found;
}

int io_source_read_devices(void *io_source, const struct io_device_reader *reader)
{
    return io_block_read(((struct io_source *)io_source)->bpf, reader);
}

bool io_source_counts_misses(void *io_source)
{
    return ((struct io_source *)io_source)->bpf->rodata->counts_misses;
}

bool io_source_device(void *io_source, uint32_t device, struct io_device_name *ret)
{
    return io_block_name(((struct io_source *)io_source)->bpf, device, ret);
}

bool io_source_mount(void *io_source, uint64_t id, struct io_name *ret)
{
    struct io_source *s = io_source;
    return bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.mount_names), &id, ret) == 0;
}

bool io_source_cgroup(void *io_source, uint64_t id, struct io_name *ret)
{
    struct io_source *s = io_source;
    return bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.cgroup_names), &id, ret) == 0;
}

bool io_source_file(void *io_source, const struct io_file_key *key, struct io_name *ret)
{
    struct io_source *s = io_source;
    return bpf_map_lookup_elem(bpf_map__fd(s->bpf->maps.file_names), key, ret) == 0;
}

void io_source_forget_mount(void *io_source, uint64_t id)
{
    struct io_source *s = io_source;
    (void)bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.mount_names), &id);
}

void io_source_forget_cgroup(void *io_source, uint64_t id)
{
    struct io_source *s = io_source;
    (void)bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.cgroup_names), &id);
}

static bool is_process_gone(uint64_t pid)
{
    return kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static void sweep_uring(struct io_source *s, uint64_t now_ns)
{
    const int fd = bpf_map__fd(s->bpf->maps.requests);
    uint64_t key;
    struct io_request request;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, &request);)
        if (request.start_ns + REQUEST_LOST_NS < now_ns && bpf_map_delete_elem(fd, &key) == 0)
            s->swept++;
}

static void sweep_aio(struct io_source *s)
{
    const int fd = bpf_map__fd(s->bpf->maps.aio_requests);
    struct aio_key key;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, NULL);)
        if (is_process_gone(key.process) && bpf_map_delete_elem(fd, &key) == 0)
            s->swept++;
}

static void sweep_daemons(struct io_source *s)
{
    const int fd = bpf_map__fd(s->bpf->maps.fuse_daemons);
    uint32_t key;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, NULL);)
        if (is_process_gone(key))
            (void)bpf_map_delete_elem(fd, &key);
}

void io_source_sweep(void *io_source, uint64_t now_ns)
{
    struct io_source *s = io_source;
    sweep_uring(io_source, now_ns);
    sweep_aio(io_source);
    sweep_daemons(io_source);
    if (now_ns > REQUEST_LOST_NS)
        s->swept += io_block_sweep(s->bpf, now_ns - REQUEST_LOST_NS);
}
