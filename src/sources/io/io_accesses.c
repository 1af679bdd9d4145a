/* Takes accesses out of the kernel's tables; see io_accesses.h. */
#include "sources/io/io_accesses.h"

#include "sources/attach/map_access.h"
#include "sources/attach/map_walk.h"
#include "sources/io/io_private.h"
#include "sources/io/io_skeleton.h"

#include "base/cleanup.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>

#define IDLE_NS   100000000ull /* a thread may be in a call for longer, which is then the first one in a new record */
#define CLOSED_NS 5000000ull

static bool is_thread_gone(uint32_t thread)
{
    return kill((pid_t)thread, 0) < 0 && errno == ESRCH;
}

static bool is_idle(const struct io_access *a, uint64_t now_ns)
{
    const bool is_closed =
        a->close.last_ns == a->last_ns && a->operations[IO_OPEN] + a->operations[IO_CREATE] <= a->operations[IO_CLOSE];
    return a->last_ns + (is_closed ? CLOSED_NS : IDLE_NS) < now_ns;
}

static int take_accesses(struct io_source *s, uint64_t now_ns, bool is_last, const struct io_access_reader *reader)
{
    const int fd = bpf_map__fd(s->bpf->maps.accesses);
    const bool is_crowded = s->access_count > IO_MAX_ACCESSES / 16;
    struct io_access_key key;
    struct io_access access;
    size_t count = 0;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, &access); count++) {
        const struct io_file_key file = {key.mount, key.file};
        const bool makes_room = is_crowded && is_idle(&access, now_ns);
        if (!is_last && !makes_room && !is_thread_gone(key.thread))
            continue;
        if (!map_take_element(fd, &key, &access))
            continue;
        reader->take(reader->context, &key, &access);
        if (key.file) /* it is named again if it is used again */
            (void)bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.file_names), &file);
    }
    s->access_count = count;
    return walk.error;
}

static int take_intervals(struct io_source *s, uint64_t now_ns, bool is_last, const struct io_access_reader *reader)
{
    const int fd = bpf_map__fd(s->bpf->maps.access_intervals);
    const uint64_t now = (now_ns - s->bpf->bss->access_start_ns) / IO_INTERVAL_NS;
    struct io_interval_key key;
    struct io_interval interval;
    _cleanup_(map_walk_end) struct map_walk walk;
    for (map_walk_begin(&walk, fd); map_walk_next(&walk, &key, &interval);)
        if ((is_last || key.interval + 2 < now) && map_take_element(fd, &key, &interval))
            reader->take_interval(reader->context, &key, &interval);
    return walk.error;
}

int io_accesses_take(void *io_source, uint64_t now_ns, bool is_last, const struct io_access_reader *reader)
{
    const int accesses = take_accesses(io_source, now_ns, is_last, reader);
    const int intervals = take_intervals(io_source, now_ns, is_last, reader);
    return accesses ?: intervals;
}

uint64_t io_accesses_start_ns(void *io_source)
{
    return ((const struct io_source *)io_source)->bpf->bss->access_start_ns;
}

struct io_access_losses io_accesses_losses(void *io_source)
{
    struct io_source *s = io_source;
    const struct io_stats sum = io_source_stats(s);
    return (struct io_access_losses){
        .lost = sum.accesses_full + sum.calls_full + io_source_missed(s, &sum),
        .pending = sum.begun > sum.ended ? sum.begun - sum.ended : 0,
        .unnamed = sum.names_full,
        .off_heatmap = sum.intervals_full,
    };
}
