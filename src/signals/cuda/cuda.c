/* Signal "cuda": calls of libcuda by process, and the time that its threads wait for the GPU. It has no records: its
 * metrics are read from the source's tables, and once a second what each process does. */
#include "sources/cuda/cuda.h"

#include "base/clock.h"
#include "resolve/proc/proc_files.h"
#include "signals/cuda/cuda_files.h"
#include "signals/cuda/cuda_metrics.h"
#include "signals/cuda_activity.h"
#include "signals/process_labels.h"
#include "signals/signal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ACTIVITY_NS 1000000000ull

/* The calls of a process, with the waits that have not ended. */
struct cuda_total {
    struct cuda_process_name name;
    struct cuda_process process;
    uint32_t waiting_tid; /* the thread that has waited for longest; 0: none waits */
    uint64_t waiting_ns;  /* since when */
};

struct cuda_totals {
    struct cuda_total all[CUDA_MAX_PROCESSES];
    size_t count;
    uint64_t read_ns; /* when they were read */
};

struct cuda_signal {
    void *source;
    struct processes *processes;
    const struct task_filter *filter;
    struct cuda_activity *activity; /* filled for other signals */
    struct cuda_files *files;
    struct cuda_totals totals; /* as they were exported last, */
    uint64_t resets;           /* after so many resets of the source */
    size_t next_checked;       /* place in a reading of the process to be checked for its end */
};

static void destroy_cuda(void *self)
{
    struct cuda_signal *s = self;
    cuda_files_free(s->files);
    free(s);
}

static int create_cuda(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct cuda_signal *s = source ? calloc(1, sizeof(*s)) : NULL;
    (void)settings;
    if (!source)
        return 0;
    if (!s)
        return -ENOMEM;
    s->source = source;
    s->processes = services->processes;
    s->filter = services->filter;
    s->activity = services->cuda_activity;
    int r = cuda_files_new(source, services->processes, &s->files);
    if (r < 0) {
        free(s);
        return r;
    }
    *ret_self = s;
    return 0;
}

static void start_cuda(void *self)
{
    cuda_files_start(((struct cuda_signal *)self)->files);
}

static void forget_counts(struct cuda_signal *s, uint32_t pid)
{
    cuda_source_forget(s->source, pid, UINT64_MAX);
    for (size_t i = 0; i < s->totals.count; i++)
        if (s->totals.all[i].name.pid == pid)
            s->totals.all[i] = (struct cuda_total){0};
}

/* The table of processes also drops processes that still run: their counts stay. */
static void forget_process(void *self, uint32_t pid, uint32_t tid)
{
    struct cuda_signal *s = self;
    if (tid != 0)
        return;
    cuda_files_forget(s->files, pid);
    if (proc_is_gone(pid))
        forget_counts(s, pid);
}

/* ---- reading ---- */

static struct cuda_total *find_total(struct cuda_totals *t, const struct cuda_process_name *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (memcmp(&t->all[i].name, name, sizeof(*name)) == 0)
            return &t->all[i];
    return NULL;
}

static void add_wait(struct cuda_total *t, uint32_t tid, uint64_t since_ns, uint64_t now_ns)
{
    t->process.synchronize_ns += now_ns - since_ns;
    if (t->waiting_tid && t->waiting_ns <= since_ns)
        return;
    t->waiting_tid = tid;
    t->waiting_ns = since_ns;
}

/* Processes first and waits after: a wait that ends in between is in neither, and in the next reading. */
static void read_totals(const struct cuda_signal *s, struct cuda_totals *ret)
{
    _cleanup_(map_walk_end) struct map_walk processes = cuda_source_processes(s->source);
    _cleanup_(map_walk_end) struct map_walk waits = cuda_source_waits(s->source);
    struct cuda_total total;
    struct cuda_wait wait;
    uint32_t tid;
    ret->count = 0;
    while (ret->count < CUDA_MAX_PROCESSES && map_walk_next(&processes, &total.name, &total.process))
        ret->all[ret->count++] = (struct cuda_total){.name = total.name, .process = total.process};
    const uint64_t now_ns = clock_monotonic_ns();
    ret->read_ns = now_ns;
    while (map_walk_next(&waits, &tid, &wait)) {
        struct cuda_total *t = find_total(ret, &wait.process);
        if (t && wait.since_ns < now_ns)
            add_wait(t, tid, wait.since_ns, now_ns);
    }
}

/* A counter does not fall: where the sum is smaller than before, a wait has ended while it was read. */
static void keep_sums(struct cuda_totals *before, struct cuda_totals *now)
{
    for (size_t i = 0; i < now->count; i++) {
        struct cuda_process *p = &now->all[i].process;
        const struct cuda_total *b = find_total(before, &now->all[i].name);
        if (b && b->process.synchronize_ns > p->synchronize_ns)
            p->synchronize_ns = b->process.synchronize_ns;
    }
}

/* Of processes with the same PID only the latest one is there: the exit of the others was missed. */
static uint64_t latest_start(const struct cuda_totals *t, uint32_t pid)
{
    uint64_t start_ns = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->all[i].name.pid == pid && t->all[i].name.start_ns > start_ns)
            start_ns = t->all[i].name.start_ns;
    return start_ns;
}

/* The end of a process that the table of processes has dropped is not reported: each reading checks one process. */
static void forget_gone(struct cuda_signal *s, const struct cuda_totals *now)
{
    const uint32_t pid = now->count ? now->all[s->next_checked++ % now->count].name.pid : 0;
    if (pid && proc_is_gone(pid))
        forget_counts(s, pid);
}

static bool is_counted(const struct cuda_signal *s, uint32_t pid)
{
    static const uint32_t needed = 1u << CUDA_CALL_LAUNCH | 1u << CUDA_CALL_GRAPH_LAUNCH | 1u << CUDA_CALL_SYNCHRONIZE;
    return (cuda_files_counted(s->files, pid) & needed) == needed;
}

/* Processes of the filter that have made no call since calls are counted: that is known of them, too. */
static size_t add_idle(const struct cuda_signal *s, struct cuda_activity_process *processes, size_t count)
{
    for (size_t i = 0; i < s->filter->pid_count && count < CUDA_MAX_PROCESSES; i++) {
        size_t at = 0;
        while (at < count && processes[at].pid != s->filter->pids[i])
            at++;
        if (at == count && is_counted(s, s->filter->pids[i]))
            processes[count++] = (struct cuda_activity_process){.pid = s->filter->pids[i]};
    }
    return count;
}

/* Processes whose launches and waits are all counted. */
static void read_activity(struct cuda_signal *s)
{
    struct cuda_activity_process processes[CUDA_MAX_PROCESSES];
    struct cuda_totals now;
    size_t count = 0;
    _Static_assert(CUDA_MAX_PROCESSES <= CUDA_ACTIVITY_MAX, "all processes have a place");
    read_totals(s, &now);
    for (size_t i = 0; i < now.count; i++) {
        const struct cuda_total *t = &now.all[i];
        if (t->name.start_ns < latest_start(&now, t->name.pid) || !is_counted(s, t->name.pid))
            continue;
        processes[count++] = (struct cuda_activity_process){.pid = t->name.pid,
                                                            .launches = t->process.calls[CUDA_CALL_LAUNCH] +
                                                                        t->process.calls[CUDA_CALL_GRAPH_LAUNCH],
                                                            .waiting_tid = t->waiting_tid,
                                                            .waiting_ns = t->waiting_ns};
    }
    cuda_activity_update(s->activity, processes, add_idle(s, processes, count), now.read_ns);
    forget_gone(s, &now);
}

static void follow_files(void *self, const struct mapped_processes *mapped)
{
    struct cuda_signal *s = self;
    cuda_files_turn(s->files, mapped);
    if (s->activity && clock_monotonic_ns() - s->activity->read_ns >= ACTIVITY_NS)
        read_activity(s);
}

/* ---- metrics ---- */

static void put_process(struct cuda_signal *s, const struct cuda_total *t, struct metric_set *set)
{
    const uint64_t start_ns = latest_start(&s->totals, t->name.pid);
    struct process_labels labels;
    if (t->name.start_ns < start_ns) {
        cuda_source_forget(s->source, t->name.pid, start_ns);
        return;
    }
    process_labels_fill(s->processes, t->name.pid, &labels);
    cuda_metrics_put(&t->process, cuda_files_counted(s->files, t->name.pid), labels.list, set);
}

static void put_metrics(void *self, struct metric_set *set)
{
    struct cuda_signal *s = self;
    struct cuda_totals now;
    if (s->resets != cuda_source_resets(s->source))
        s->totals.count = 0;
    s->resets = cuda_source_resets(s->source);
    read_totals(s, &now);
    keep_sums(&s->totals, &now);
    s->totals = now;
    for (size_t i = 0; i < s->totals.count; i++)
        put_process(s, &s->totals.all[i], set);
    metric_add(set, "sonde_cuda_timestamp_seconds", METRIC_GAUGE, "seconds", "Unix time when the counts were read.",
               (double)(clock_unix_ns() - (clock_monotonic_ns() - s->totals.read_ns)) / 1e9, METRIC_NO_LABELS);
    cuda_files_metrics(s->files, set);
}

/* ---- the budget ---- */

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "calls of libcuda"},
    {SOURCE_DETAIL_NO_OFF_CPU, "no calls of libcuda"},
    {0},
};

static void shed_cuda(void *self, enum source_detail detail)
{
    cuda_files_pause(((struct cuda_signal *)self)->files, detail >= SOURCE_DETAIL_NO_OFF_CPU);
}

static const struct setting settings[] = {
    SIGNAL_ENABLED("cuda.enabled", "count the calls of libcuda, and the time that they wait for the GPU, by process"),
    {0},
};

const struct signal signal_cuda = {
    .name = "cuda",
    .memory = {.fixed_bytes = 384u << 10},
    .source = &source_cuda,
    .flags = SIGNAL_AUXILIARY,
    .settings_bytes = sizeof(struct signal_settings),
    .defaults = &(const struct signal_settings){.enabled = false},
    .settings = settings,
    .is_node_wide = signal_is_node_wide,
    .create = create_cuda,
    .destroy = destroy_cuda,
    .start = start_cuda,
    .exited = forget_process,
    .turn = follow_files,
    .metrics = put_metrics,
    .levels = levels,
    .shed = shed_cuda,
};
