/* Turns windows of the flight recorder into the waits of a report; see recorder_waits.h. */
#include "cli/recorder_waits.h"

#include "base/buf.h"
#include "base/clock.h"
#include "cli/io_report_data.h"
#include "cli/io_report_target.h"
#include "diagnose/flight_index.h"
#include "diagnose/read_waits.h"
#include "resolve/proc/proc_files.h"
#include "sources/recorder/recorder.h"
#include "sources/tables/flight_recorder.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <uthash.h>

#define CPU_BYTES     (2u << 20) /* of the rings: some 30,000 switches and wake-ups of each CPU */
#define MIN_BYTES     (16u << 20)
#define MAX_BYTES     (256u << 20)
#define TURN_NS       1000000000ull
#define BEFORE_NS     2000000000ull /* waits may have begun so long before a turn */
#define RECORDS_MAX   500000        /* of a turn */
#define COST_SHARE    20            /* a turn takes at most one part in this many of the time */
#define SETTLE_NS     5000000ull    /* records that are being written when they are read may be missing */
#define PROCESSES_MAX 100000

/* A process that the report is about. */
struct selected {
    uint32_t pid;
    char command[16]; /* "": not known */
    UT_hash_handle hh;
};

struct recorder_waits {
    const struct io_report_target *target;
    struct io_report_data *data; /* also of the target are those that used files */
    void *source;
    struct flight_recorder *recorder;
    int followed_fd; /* negative: the target is a job */
    struct read_waits *sums;
    struct selected *selected;
    uint64_t last_ns; /* waits that ended until then are summed */
    uint64_t next_ns; /* of the next turn */
    struct io_report_thread *threads;
    struct io_report_wait *waits;
};

uint64_t recorder_waits_memory(void)
{
    const uint64_t bytes = (uint64_t)get_nprocs() * CPU_BYTES;
    return bytes < MIN_BYTES ? MIN_BYTES : bytes > MAX_BYTES ? MAX_BYTES : bytes;
}

void recorder_waits_free(struct recorder_waits *w)
{
    struct selected *selected, *next;
    if (!w)
        return;
    HASH_ITER (hh, w->selected, selected, next) {
        HASH_DEL(w->selected, selected);
        free(selected);
    }
    if (w->source)
        source_recorder.free(w->source);
    read_waits_free(w->sums);
    free(w->threads);
    free(w->waits);
    free(w);
}

int recorder_waits_new(const struct source_services *services, const struct io_report_target *target,
                       struct io_report_data *data, struct attach_report *report, struct recorder_waits **ret)
{
    _cleanup_(recorder_waits_freep) struct recorder_waits *w = calloc(1, sizeof(*w));
    if (!w || read_waits_new(&w->sums) < 0)
        return -ENOMEM;
    w->target = target;
    w->data = data;
    w->followed_fd = services->filter->pid_count ? shared_tables_followed_fd(services->tables) : -1;
    const struct recorder_options options = {.enabled = true, .records_reads = true};
    int r = source_recorder.open(services, &options, report, &w->source);
    if (r == 0)
        r = source_recorder.start(w->source);
    if (r < 0)
        return r;
    w->recorder = shared_tables_recorder(services->tables);
    w->last_ns = clock_monotonic_ns();
    w->next_ns = w->last_ns + TURN_NS;
    *ret = take_ptr(w);
    return 0;
}

/* ---- turns ---- */

static bool is_of_target(const struct recorder_waits *w, uint32_t pid)
{
    uint64_t value;
    return (w->followed_fd >= 0 && bpf_map_lookup_elem(w->followed_fd, &pid, &value) == 0) ||
           io_report_target_has(w->target, pid) || io_report_data_has_process(w->data, pid);
}

static void read_command(struct selected *s)
{
    _cleanup_close_ int proc = proc_open(s->pid);
    struct proc_stat stat;
    if (proc >= 0 && proc_read_stat(proc, &stat) == 0)
        snprintf(s->command, sizeof(s->command), "%s", stat.command);
}

static struct selected *find_selected(const struct recorder_waits *w, uint32_t pid)
{
    struct selected *selected = NULL;
    HASH_FIND(hh, w->selected, &pid, sizeof(pid), selected);
    return selected;
}

/* Once a process is known to be selected it remains so, as it may have ended when its records are read. */
static bool is_selected(void *context, uint32_t pid)
{
    struct recorder_waits *w = context;
    if (find_selected(w, pid))
        return true;
    if (HASH_COUNT(w->selected) >= PROCESSES_MAX || !is_of_target(w, pid))
        return false;
    struct selected *selected = calloc(1, sizeof(*selected));
    if (selected) {
        selected->pid = pid;
        read_command(selected);
        HASH_ADD(hh, w->selected, pid, sizeof(selected->pid), selected);
    }
    return true;
}

static int take_window(struct recorder_waits *w, uint64_t to_ns)
{
    struct flight_window window = {0};
    _cleanup_(flight_index_freep) struct flight_index *index = NULL;
    const uint64_t from_ns = w->last_ns > BEFORE_NS ? w->last_ns - BEFORE_NS : 0;
    int r = flight_recorder_window(w->recorder, from_ns, to_ns, RECORDS_MAX, &window);
    if (r == 0 && window.count)
        r = flight_index_new(&window, &index) ?: read_waits_add(w->sums, index, w->last_ns, to_ns, is_selected, w);
    index = (flight_index_free(index), NULL); /* borrows the window */
    flight_recorder_window_free(&window);
    return r;
}

/* Half of what the rings can hold has been written since the last turn. */
static bool is_half_full(const struct recorder_waits *w, uint64_t now_ns)
{
    return now_ns - w->last_ns > flight_recorder_stats(w->recorder, now_ns).history_ns / 2;
}

int recorder_waits_take(struct recorder_waits *w, uint64_t now_ns, bool is_last)
{
    if (!is_last && (now_ns < w->next_ns || (now_ns < w->last_ns + TURN_NS && !is_half_full(w, now_ns))))
        return 0;
    const uint64_t start_ns = clock_thread_cpu_ns(), to_ns = now_ns - SETTLE_NS;
    const int r = take_window(w, to_ns);
    w->last_ns = to_ns;
    w->next_ns = now_ns + COST_SHARE * (clock_thread_cpu_ns() - start_ns);
    return r;
}

/* ---- the report ---- */

static bool matters(const struct recorder_waits *w, const struct read_waits_thread *t)
{
    return t->for_reads_ns || t->ran_ns * 100 >= read_waits_observed_ns(w->sums);
}

int recorder_waits_add_processes(struct recorder_waits *w)
{
    size_t count;
    const struct read_waits_thread *threads = read_waits_threads(w->sums, &count);
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        const struct selected *selected = threads[i].for_reads_ns ? find_selected(w, threads[i].pid) : NULL;
        if (selected)
            r = io_report_data_add_process(w->data, selected->pid, selected->command);
    }
    return r;
}

static int compare_processes(const void *left, const void *right)
{
    const struct io_report_process *a = left, *b = right;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

/* NULL: it is not in the report. */
static const struct io_report_process *find_process(const struct io_report *report, uint32_t pid)
{
    const struct io_report_process wanted = {.pid = pid};
    return bsearch(&wanted, report->processes, report->process_count, sizeof(wanted), compare_processes);
}

/* The file of process `pid` whose path ends with `name`. NULL: there is none, or several. */
static const struct io_report_file *find_file(const struct io_report *report, uint32_t pid, const char *name)
{
    const struct io_report_process *process = find_process(report, pid);
    const struct io_report_file *found = NULL;
    for (size_t i = 0; process && i < report->file_count; i++) {
        const struct io_report_file *file = &report->files[i];
        const char *folder = strrchr(file->path, '/');
        if (file->process != (uint32_t)(process - report->processes) || !folder || strcmp(folder + 1, name) != 0)
            continue;
        if (found)
            return NULL;
        found = file;
    }
    return found;
}

static void find_awaited(const struct recorder_waits *w, struct io_report *ret)
{
    size_t count;
    const struct read_waits_file *files = read_waits_files(w->sums, &count), *most = NULL;
    struct recorder_file named;
    for (size_t i = 0; i < count; i++)
        if (!most || files[i].ns > most->ns)
            most = &files[i];
    if (!most || !flight_recorder_file(w->recorder, most->file, &named) ||
        strlen(named.name) == sizeof(named.name) - 1) /* it may be cut */
        return;
    ret->awaited = find_file(ret, most->reader_pid, named.name);
    ret->awaited_others = count - 1;
}

static void add_thread(struct recorder_waits *w, const struct read_waits_thread *t, struct io_report *ret)
{
    const struct io_report_process *process = matters(w, t) ? find_process(ret, t->pid) : NULL;
    ret->waits_unknown_ns += t->tid == t->pid ? t->unknown_ns : 0;
    if (process)
        w->threads[ret->thread_count++] = (struct io_report_thread){.process = (uint32_t)(process - ret->processes),
                                                                    .tid = t->tid,
                                                                    .ran_ns = t->ran_ns,
                                                                    .for_reads_ns = t->for_reads_ns,
                                                                    .inferred_ns = t->inferred_ns,
                                                                    .unknown_ns = t->unknown_ns};
}

int recorder_waits_finish(struct recorder_waits *w, struct io_report *ret)
{
    size_t thread_count, pair_count;
    const struct read_waits_thread *threads = read_waits_threads(w->sums, &thread_count);
    const struct read_waits_pair *pairs = read_waits_pairs(w->sums, &pair_count);
    w->threads = calloc(thread_count + 1, sizeof(*w->threads));
    w->waits = calloc(pair_count + 1, sizeof(*w->waits));
    if (!w->threads || !w->waits)
        return -ENOMEM;
    for (size_t i = 0; i < thread_count; i++)
        add_thread(w, &threads[i], ret);
    for (size_t i = 0; i < pair_count; i++)
        w->waits[ret->wait_count++] =
            (struct io_report_wait){pairs[i].tid, pairs[i].pid, pairs[i].reader, pairs[i].reader_pid, pairs[i].ns};
    ret->threads = w->threads;
    ret->waits = w->waits;
    ret->waits_observed_ns = read_waits_observed_ns(w->sums);
    find_awaited(w, ret);
    return 0;
}
