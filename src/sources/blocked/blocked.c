/* Loads the iterator of probes/blocked.bpf.c and walks over all tasks every few seconds, unless the node is idle.
 * Writes a record for each task that was blocked in the walk before, too. The task filter does not apply. */
#include "sources/blocked/blocked.h"

#include "sources/attach/iterator.h"
#include "sources/blocked/blocked_list.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpu_share.h"

#include "blocked.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WALK_SHARE      1000 /* one part in so many of a CPU goes to walks, at most */
#define IDLE_HUNDREDTHS 5    /* load average below which no task is blocked: one that is for 10 s raises it by 0.15 */

struct blocked_source {
    struct blocked_bpf *bpf;
    struct bpf_link *link;
    struct blocked_list *last, *next;
    bool is_started;
    uint64_t walked_ns, next_walk_ns, walks, run_time_ns;
    uint64_t lost; /* records that did not fit the batch, and tasks beyond BLOCKED_MAX_TASKS */
};

static void blocked_free(void *self)
{
    struct blocked_source *s = self;
    if (!s)
        return;
    bpf_link__destroy(s->link);
    blocked_bpf__destroy(s->bpf);
    free(s->last);
    free(s->next);
    free(s);
}

static void blocked_freep(struct blocked_source **s)
{
    blocked_free(*s);
}

static int load_iterator(struct blocked_source *s)
{
    libbpf_set_print(NULL);
    s->bpf = blocked_bpf__open_and_load();
    if (!s->bpf)
        return -errno;
    s->link = bpf_program__attach_iter(s->bpf->progs.blocked_tasks, NULL);
    return s->link ? 0 : -errno;
}

static int blocked_open(const struct source_services *services, const void *options, struct attach_report *report,
                        void **ret_self)
{
    static const char method[] = "iterator over tasks";
    _cleanup_(blocked_freep) struct blocked_source *s = calloc(1, sizeof(*s));
    struct attach_entry *entry = attach_report_add(report, "blocked tasks");
    (void)services, (void)options;
    if (s) {
        s->last = calloc(1, sizeof(*s->last));
        s->next = calloc(1, sizeof(*s->next));
    }
    if (!s || !s->last || !s->next)
        return -ENOMEM;
    const int r = load_iterator(s);
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->limitation, sizeof(entry->limitation), "tasks that are blocked for long are not found");
        return r;
    }
    entry->attached = true;
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    *ret_self = take_ptr(s);
    return 0;
}

/* ---- walks ---- */

/* The load average of one minute, in hundredths. -errno. */
static int read_load(void)
{
    _cleanup_buf_ struct buf text = {0};
    unsigned whole, hundredths;
    const int r = buf_read_file(&text, "/proc/loadavg", 256);
    if (r < 0)
        return r;
    return text.data && sscanf(text.data, "%u.%2u", &whole, &hundredths) == 2 ? (int)(whole * 100 + hundredths)
                                                                              : -EBADMSG;
}

/* Whether tasks wait for I/O now, which the load average shows late. Unknown counts as true. */
static bool has_io_waits(void)
{
    static const char label[] = "\nprocs_blocked ";
    _cleanup_buf_ struct buf text = {0};
    if (buf_read_file(&text, "/proc/stat", 1 << 20) < 0 || !text.data)
        return true;
    const char *line = strstr(text.data, label);
    return !line || atoi(line + sizeof(label) - 1) > 0;
}

static void put_task(struct blocked_source *s, struct batch *batch, const struct blocked_task *task, uint64_t now_ns)
{
    const uint64_t since_ns = blocked_list_since(s->last, task, now_ns);
    blocked_list_add(s->next, task, since_ns);
    if (since_ns == now_ns)
        return;
    struct blocked_record *r = batch_reserve(batch, sizeof(*r));
    if (!r) {
        s->lost++;
        return;
    }
    r->h.kind = RECORD_BLOCKED;
    r->h.time_ns = now_ns;
    r->h.pid = task->pid;
    r->h.tid = task->tid;
    r->blocked_ns = now_ns - since_ns;
    r->interval_ns = now_ns - s->walked_ns;
    r->task = *task;
}

static int walk_tasks(struct blocked_source *s, struct batch *batch, uint64_t now_ns)
{
    struct blocked_task page[16];
    ssize_t bytes;
    _cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(s->link));
    if (fd < 0)
        return -errno;
    s->bpf->bss->counts = (struct blocked_counts){0};
    s->next->count = 0;
    while ((bytes = iterator_read(fd, page, sizeof(page))) > 0)
        for (ssize_t i = 0; i < bytes / (ssize_t)sizeof(page[0]); i++)
            put_task(s, batch, &page[i], now_ns);
    if (bytes < 0)
        return (int)bytes;
    blocked_list_sort(s->next);
    struct blocked_list *swapped = s->last;
    s->last = s->next;
    s->next = swapped;
    s->walked_ns = now_ns;
    s->walks++;
    const uint32_t found = s->bpf->bss->counts.uninterruptible;
    s->lost += found > BLOCKED_MAX_TASKS ? found - BLOCKED_MAX_TASKS : 0;
    return 0;
}

static void put_walk(struct blocked_source *s, struct batch *batch, const struct blocked_counts *counts, int load,
                     uint64_t now_ns)
{
    struct blocked_walk *w = batch_reserve(batch, sizeof(*w));
    if (!w) {
        s->lost++;
        return;
    }
    w->h.kind = RECORD_BLOCKED_WALK;
    w->h.time_ns = now_ns;
    w->tasks = counts->tasks;
    w->runnable = counts->runnable;
    w->uninterruptible = counts->uninterruptible;
    w->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    w->load_hundredths = load > 0 ? (uint32_t)load : 0;
}

static void check_node(struct blocked_source *s, struct batch *batch, uint64_t now_ns)
{
    const struct blocked_counts none = {0};
    const uint64_t begin_ns = clock_thread_cpu_ns(); /* a busy node is read as often as a quiet one */
    const int load = read_load();
    const bool is_idle = load >= 0 && load < IDLE_HUNDREDTHS && !has_io_waits();
    if (is_idle)
        s->last->count = 0;
    if (is_idle || walk_tasks(s, batch, now_ns) == 0)
        put_walk(s, batch, is_idle ? &none : &s->bpf->bss->counts, load, now_ns);
    const uint64_t took_ns = clock_thread_cpu_ns() - begin_ns;
    s->run_time_ns += took_ns;
    s->next_walk_ns = now_ns + cpu_share_rest_ns(took_ns, WALK_SHARE, BLOCKED_INTERVAL_NS);
}

static int blocked_start(void *self)
{
    struct blocked_source *s = self;
    s->is_started = true;
    return 0;
}

static int blocked_stop(void *self)
{
    struct blocked_source *s = self;
    s->is_started = false;
    return 0;
}

static int blocked_drain(void *self, struct batch *batch)
{
    struct blocked_source *s = self;
    const uint64_t now_ns = clock_monotonic_ns();
    if (s->is_started && now_ns >= s->next_walk_ns)
        check_node(s, batch, now_ns);
    return 0;
}

/* ---- statistics ---- */

static void blocked_losses(void *self, struct losses *losses)
{
    losses->count[LOSS_RING_FULL] += ((const struct blocked_source *)self)->lost;
}

static void blocked_metrics(void *self, struct metric_set *set)
{
    const struct blocked_source *s = self;
    source_put_runs(set, "blocked_tasks", s->walks, s->run_time_ns);
}

const struct source source_blocked = {
    .name = "blocked",
    .help = "tasks that are blocked for long",
    .open = blocked_open,
    .start = blocked_start,
    .stop = blocked_stop,
    .drain = blocked_drain,
    .losses = blocked_losses,
    .metrics = blocked_metrics,
    .free = blocked_free,
};
