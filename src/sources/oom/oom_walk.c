/* Walks over all processes: for the largest ones, and for those that grow towards a limit, whose page faults are then
 * sampled. A walk is due when the memory of the node has grown, and else now and then. */
#include "sources/oom/oom_private.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpu_share.h"
#include "base/labelled_number.h"
#include "sources/attach/iterator.h"

#include "oom.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK_NS      250000000ull
#define WALK_NS       10000000000ull
#define WALK_SHARE    1000        /* one part in so many of a CPU goes to walks, at most */
#define GROWN_KIB     (16u << 10) /* the node's memory grows by that much: a walk is due at once */
#define SAMPLES_HZ    8           /* of a process */
#define FAULTS_HZ_MAX 20000       /* of a process: the kernel takes some 50 ns to count one */
#define FIRST_PERIOD  16
#define MAX_PERIOD    65536

typedef void take_process(void *context, const struct oom_process *p);

static int walk_processes(struct oom_source *s, uint64_t below_cgroup_id, take_process *take, void *context)
{
    struct oom_process page[64];
    ssize_t bytes;
    if (!s->iterator)
        return -EOPNOTSUPP;
    const uint64_t begin_ns = clock_thread_cpu_ns();
    s->bpf->bss->below_cgroup_id = below_cgroup_id;
    _cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(s->iterator));
    if (fd < 0)
        return -errno;
    while ((bytes = iterator_read(fd, page, sizeof(page))) > 0)
        for (ssize_t i = 0; i < bytes / (ssize_t)sizeof(page[0]); i++)
            take(context, &page[i]);
    s->walks++;
    s->run_time_ns += clock_thread_cpu_ns() - begin_ns;
    return (int)bytes;
}

/* ---- the largest ---- */

struct largest {
    uint32_t except;
    bool is_of_cgroup;
    struct oom_process *list;
    size_t count, max;
};

static void keep_largest(void *context, const struct oom_process *p)
{
    struct largest *l = context;
    if (p->pid == l->except || (l->is_of_cgroup && !p->is_below))
        return;
    size_t at = l->count;
    while (at > 0 && oom_grown_pages(&l->list[at - 1].memory) < oom_grown_pages(&p->memory))
        at--;
    if (at == l->max)
        return;
    l->count += l->count < l->max;
    memmove(&l->list[at + 1], &l->list[at], (l->count - at - 1) * sizeof(*p));
    l->list[at] = *p;
}

size_t oom_largest(void *source, uint64_t cgroup_id, uint32_t except, struct oom_process *ret, size_t max)
{
    struct largest l = {.except = except, .is_of_cgroup = cgroup_id != 0, .list = ret, .max = max};
    if (source)
        (void)walk_processes(source, cgroup_id, keep_largest, &l);
    return l.count;
}

/* ---- growth ---- */

struct node_memory {
    uint64_t anonymous_kib; /* and shared memory */
    uint64_t left_kib;      /* with swap */
};

static struct node_memory read_node_memory(void)
{
    _cleanup_buf_ struct buf text = {0};
    if (buf_read_file(&text, "/proc/meminfo", 16384) < 0 || !text.data)
        return (struct node_memory){0};
    return (struct node_memory){
        .anonymous_kib = labelled_number(text.data, "\nAnonPages:") + labelled_number(text.data, "\nShmem:"),
        .left_kib = labelled_number(text.data, "\nMemAvailable:") + labelled_number(text.data, "\nSwapFree:"),
    };
}

static void stop_watching(struct oom_watched *w)
{
    thread_events_free(w->events);
    *w = (struct oom_watched){0};
}

void oom_stop_watching(struct oom_source *s)
{
    for (size_t i = 0; i < array_size(s->watched); i++)
        stop_watching(&s->watched[i]);
}

static bool has_pid(const uint32_t *pids, size_t count, uint32_t pid)
{
    while (count && pids[count - 1] != pid)
        count--;
    return count;
}

/* Page faults of all threads so far; 0: the process is gone. */
static uint64_t read_faults(uint32_t pid)
{
    _cleanup_buf_ struct buf text = {0};
    char path[32];
    uint64_t minor = 0, major = 0;
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (buf_read_file(&text, path, 4096) < 0 || !text.data)
        return 0;
    const char *after_name = strrchr(text.data, ')');
    return after_name &&
                   sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %" SCNu64, &minor, &major) == 2
               ? minor + major
               : 0;
}

/* Opens the new events before it closes the events of another period, so that the kernel does not switch its counting
 * off and on again. */
static void sample_faults(struct oom_source *s, struct oom_watched *w, uint32_t pid, uint64_t period)
{
    const struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_PAGE_FAULTS, .sample_period = period};
    struct thread_events *events;
    if (thread_events_open(&attr, shared_tables_sampler_fd(s->tables), pid, &events) < 0)
        return;
    thread_events_free(w->events);
    w->events = events;
    w->period = period;
}

static void start_watching(struct oom_source *s, struct oom_watched *w, uint32_t pid, uint64_t now_ns)
{
    *w = (struct oom_watched){.faults = read_faults(pid), .read_ns = now_ns};
    sample_faults(s, w, pid, FIRST_PERIOD);
    w->pid = w->events ? pid : 0;
}

/* The period follows the rate of page faults, which can be much higher than the growth. A process with very many is
 * sampled for a part of the time. */
static void follow_rate(struct oom_source *s, struct oom_watched *w, uint64_t now_ns)
{
    if (now_ns < w->resume_ns)
        return;
    const uint64_t faults = read_faults(w->pid), passed_ns = now_ns - w->read_ns, before = w->faults;
    w->faults = faults;
    w->read_ns = now_ns;
    if (!w->events) {
        sample_faults(s, w, w->pid, w->period);
        return;
    }
    if (faults < before || passed_ns < 1000000)
        return;
    const uint64_t rate = (faults - before) * 1000 / (passed_ns / 1000000);
    uint64_t period = rate / SAMPLES_HZ;
    period = period < 1 ? 1 : period > MAX_PERIOD ? MAX_PERIOD : period;
    if (rate >= 2 * FAULTS_HZ_MAX) {
        w->resume_ns = now_ns + passed_ns * (rate / FAULTS_HZ_MAX - 1);
        w->period = period;
        thread_events_free(w->events);
        w->events = NULL;
    } else if (period >= 4 * w->period || w->period >= 4 * period) {
        sample_faults(s, w, w->pid, period);
    }
}

static void watch_fastest(struct oom_source *s)
{
    uint32_t pids[OOM_FASTEST_MAX];
    const size_t count = oom_growth_fastest(s->growth, pids);
    uint32_t watched[OOM_FASTEST_MAX];
    for (size_t i = 0; i < OOM_FASTEST_MAX; i++) {
        if (s->watched[i].pid && !has_pid(pids, count, s->watched[i].pid))
            stop_watching(&s->watched[i]);
        watched[i] = s->watched[i].pid;
    }
    for (size_t i = 0, free_place = 0; i < count; i++) {
        if (has_pid(watched, OOM_FASTEST_MAX, pids[i]))
            continue;
        while (s->watched[free_place].pid)
            free_place++;
        start_watching(s, &s->watched[free_place], pids[i], s->growth->now_ns);
    }
}

static void add_process(void *context, const struct oom_process *p)
{
    oom_growth_add(context, p);
}

static void find_growth(struct oom_source *s, uint64_t now_ns, uint64_t left_kib)
{
    const uint64_t before_ns = s->run_time_ns;
    oom_growth_begin(s->growth, now_ns, left_kib * 1024 / (uint64_t)sysconf(_SC_PAGESIZE));
    if (walk_processes(s, 0, add_process, s->growth) == 0)
        watch_fastest(s);
    s->next_walk_ns = now_ns + cpu_share_rest_ns(s->run_time_ns - before_ns, WALK_SHARE, 0);
}

void oom_follow_growth(struct oom_source *s, uint64_t now_ns)
{
    if (!s->iterator || s->is_shed || shared_tables_sampler_fd(s->tables) < 0 || now_ns - s->checked_ns < CHECK_NS)
        return;
    s->checked_ns = now_ns;
    for (size_t i = 0; i < array_size(s->watched); i++)
        if (s->watched[i].pid)
            follow_rate(s, &s->watched[i], now_ns);
    const struct node_memory node = read_node_memory();
    const uint64_t kib = node.anonymous_kib;
    s->anonymous_kib = kib < s->anonymous_kib ? kib : s->anonymous_kib;
    const bool has_grown = kib >= s->anonymous_kib + GROWN_KIB, is_old = now_ns - s->growth->now_ns >= WALK_NS;
    if ((!has_grown && !is_old) || now_ns < s->next_walk_ns)
        return;
    s->anonymous_kib = kib;
    find_growth(s, now_ns, node.left_kib);
}
