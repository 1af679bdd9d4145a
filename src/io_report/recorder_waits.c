/* Turns windows of the flight recorder into the waits of a report; see recorder_waits.h. */
#include "io_report/recorder_waits.h"

#include "base/clock.h"
#include "diagnose/flight/flight_index.h"
#include "diagnose/io/io_rules.h"
#include "diagnose/path/read_waits.h"
#include "io_report/io_report_data.h"
#include "io_report/io_report_target.h"
#include "resolve/proc/proc_files.h"
#include "sources/recorder/recorder.h"
#include "sources/sampling/task_filters.h"
#include "sources/tables/flight_recorder.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define HASH_NONFATAL_OOM 1 /* before the first include of uthash.h */
#include <uthash.h>

#define CPU_BYTES     (1u << 20) /* of the rings: some 16,000 switches and wake-ups of each CPU */
#define MIN_BYTES     (16u << 20)
#define MAX_BYTES     (64u << 20)
#define READ_NS       1000000000ull /* between two windows */
#define BEFORE_NS     5000000000ull /* waits may have begun so long before that */
#define RECORDS_MAX   500000        /* of a window */
#define COST_SHARE    20            /* reading takes at most one part in this many of the time */
#define SETTLE_NS     5000000ull    /* records that are being written when they are read may be missing */
#define PROCESSES_MAX 100000

/* A process that has records. */
struct known_process {
    uint32_t pid, user;
    char command[16];  /* "": not known */
    uint64_t start_ns; /* since boot; 0: not known */
    size_t window;     /* when this was last found out */
    bool is_selected;  /* the report is about it */
    UT_hash_handle hh;
};

struct recorder_waits {
    const struct io_report_target *target;
    struct io_report_data *data; /* also of the target are those that used files */
    void *source;
    struct flight_recorder *recorder;
    int followed_fd; /* negative: the target is a job */
    struct read_waits *sums;
    struct known_process *processes;
    size_t window;                    /* the number of the current one */
    uint64_t last_ns;                 /* waits that ended until then are summed */
    uint64_t next_ns;                 /* when the next window is due */
    struct recorder_file *file_names; /* of the files of `sums`; "": not known */
    size_t name_count, name_room;
    struct io_report_thread *threads;
    struct io_report_wait *waits;
};

uint64_t recorder_waits_memory(void)
{
    const int cpus = libbpf_num_possible_cpus();
    const uint64_t bytes = cpus > 0 ? (uint64_t)cpus * CPU_BYTES : 0;
    return bytes < MIN_BYTES ? MIN_BYTES : bytes > MAX_BYTES ? MAX_BYTES : bytes;
}

static void forget_processes(struct recorder_waits *w, bool also_selected)
{
    struct known_process *p, *next;
    HASH_ITER (hh, w->processes, p, next)
        if (also_selected || !p->is_selected) {
            HASH_DEL(w->processes, p);
            free(p);
        }
}

void recorder_waits_free(struct recorder_waits *w)
{
    if (!w)
        return;
    forget_processes(w, true);
    if (w->source)
        source_recorder.free(w->source);
    read_waits_free(w->sums);
    free(w->file_names);
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
    const struct recorder_options options = {.enabled = true, .is_detailed = true};
    int r = source_recorder.open(services, &options, report, &w->source);
    if (r == 0)
        r = source_recorder.start(w->source);
    if (r < 0)
        return r;
    w->recorder = shared_tables_recorder(services->tables);
    w->last_ns = clock_monotonic_ns();
    w->next_ns = w->last_ns;
    *ret = take_ptr(w);
    return 0;
}

/* ---- which processes ---- */

static struct known_process *look_up_process(const struct recorder_waits *w, uint32_t pid)
{
    struct known_process *p = NULL;
    HASH_FIND(hh, w->processes, &pid, sizeof(pid), p);
    return p;
}

/* NULL: no memory, or there are too many. */
static struct known_process *add_process(struct recorder_waits *w, uint32_t pid)
{
    if (HASH_COUNT(w->processes) >= PROCESSES_MAX)
        forget_processes(w, false);
    struct known_process *p = HASH_COUNT(w->processes) < PROCESSES_MAX ? calloc(1, sizeof(*p)) : NULL;
    if (!p)
        return NULL;
    p->pid = pid;
    HASH_ADD(hh, w->processes, pid, sizeof(p->pid), p);
    if (!p->hh.tbl) {
        free(p);
        return NULL;
    }
    return p;
}

static bool is_of_target(const struct recorder_waits *w, uint32_t pid)
{
    return (w->followed_fd >= 0 && task_filters_is_followed(w->followed_fd, pid)) ||
           io_report_target_has(w->target, pid) || io_report_data_has_process(w->data, pid);
}

/* Reads the process's attributes. A process that has ended keeps its known ones, unless another one has its ID. */
static void find_out(const struct recorder_waits *w, struct known_process *p)
{
    _cleanup_close_ int proc = proc_open(p->pid);
    struct proc_stat stat;
    struct proc_ids ids;
    const bool runs = proc >= 0 && proc_read_stat(proc, &stat) == 0;
    p->window = w->window;
    if (runs && stat.start_boot_ns != p->start_ns) {
        p->is_selected = false;
        p->start_ns = stat.start_boot_ns;
        p->user = proc_read_ids(proc, &ids) == 0 ? ids.users[0] : 0;
    }
    if (runs)
        snprintf(p->command, sizeof(p->command), "%s", stat.command);
    p->is_selected = p->is_selected || is_of_target(w, p->pid);
}

static bool is_selected(void *context, uint32_t pid)
{
    struct recorder_waits *w = context;
    struct known_process *p = look_up_process(w, pid) ?: add_process(w, pid);
    if (p && p->window != w->window)
        find_out(w, p);
    return p && p->is_selected;
}

/* ---- windows ---- */

/* While the kernel still has them. */
static void take_file_names(struct recorder_waits *w)
{
    size_t count;
    bool is_complete;
    const struct read_waits_file *files = read_waits_files(w->sums, &count, &is_complete);
    if (count > w->name_room) {
        struct recorder_file *names = realloc(w->file_names, 2 * count * sizeof(*names));
        if (!names)
            return;
        w->file_names = names;
        w->name_room = 2 * count;
    }
    for (; w->name_count < count; w->name_count++)
        if (!flight_recorder_file(w->recorder, files[w->name_count].file, &w->file_names[w->name_count]))
            w->file_names[w->name_count].name[0] = '\0';
}

static void take_window(struct recorder_waits *w, uint64_t to_ns)
{
    const uint64_t from_ns = w->last_ns > BEFORE_NS ? w->last_ns - BEFORE_NS : 0;
    struct flight_window window = {0};
    struct flight_index *index = NULL;
    w->window++;
    if (flight_recorder_window(w->recorder, from_ns, to_ns, RECORDS_MAX, &window) < 0)
        return;
    if (window.complete_from_ns < from_ns)
        window.complete_from_ns = from_ns;
    if (window.count && flight_index_new(&window, &index) == 0) {
        read_waits_add(w->sums, index, w->last_ns, to_ns, is_selected, w);
        take_file_names(w);
    }
    flight_index_free(index);
    flight_recorder_window_free(&window);
}

/* True if half of the rings' capacity has been written since the last window. */
static bool is_half_full(const struct recorder_waits *w, uint64_t now_ns)
{
    return now_ns - w->last_ns > flight_recorder_stats(w->recorder, now_ns).history_ns / 2;
}

void recorder_waits_take(struct recorder_waits *w, uint64_t now_ns, bool is_last)
{
    if (!is_last && (now_ns < w->next_ns || (now_ns < w->last_ns + READ_NS && !is_half_full(w, now_ns))))
        return;
    const uint64_t start_ns = clock_thread_cpu_ns();
    take_window(w, now_ns - SETTLE_NS);
    w->last_ns = now_ns - SETTLE_NS;
    w->next_ns = now_ns + COST_SHARE * (clock_thread_cpu_ns() - start_ns);
}

/* ---- the report ---- */

int recorder_waits_add_processes(struct recorder_waits *w)
{
    size_t count;
    const struct read_waits_thread *threads = read_waits_threads(w->sums, &count);
    int r = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        const struct known_process *p = threads[i].for_reads_ns ? look_up_process(w, threads[i].pid) : NULL;
        if (p)
            r = io_report_data_add_process(w->data, p->pid, p->command, p->user);
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

/* The file of process `pid` whose path ends with `name`. NULL: no such file, or several. */
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

/* Sets the file whose reads the thread awaited longest, and counts the other awaited files. */
static void find_awaited(const struct recorder_waits *w, const struct io_report *report,
                         struct io_report_thread *thread)
{
    size_t count;
    bool is_complete;
    const struct read_waits_file *files = read_waits_files(w->sums, &count, &is_complete);
    const uint32_t pid = report->processes[thread->process].pid;
    size_t most = SIZE_MAX, own = 0;
    for (size_t i = 0; i < count && i < w->name_count; i++) {
        if (files[i].tid != thread->tid || files[i].pid != pid)
            continue;
        own++;
        if (most == SIZE_MAX || files[i].ns > files[most].ns)
            most = i;
    }
    if (most == SIZE_MAX || (!is_complete && files[most].ns * 2 < thread->for_reads_ns))
        return;
    const struct recorder_file *named = &w->file_names[most];
    if (named->name[0] && strlen(named->name) < sizeof(named->name) - 1) /* a longer one may be cut */
        thread->awaited = find_file(report, files[most].reader_pid, named->name);
    thread->awaited_others = thread->awaited ? own - 1 : 0;
}

/* Files are found for those that can matter: each costs a search in all of them. */
static bool has_file(const struct io_report_thread *t, const struct io_report *report)
{
    return (double)t->for_reads_ns >= IO_RULE_MIN_SHARE * (double)report->waits_observed_ns;
}

static int compare_threads(const void *left, const void *right)
{
    const struct io_report_thread *a = left, *b = right;
    return a->process != b->process ? (a->process > b->process) - (a->process < b->process)
                                    : (a->tid > b->tid) - (a->tid < b->tid);
}

static void add_thread(struct recorder_waits *w, const struct read_waits_thread *t, struct io_report *ret)
{
    const struct io_report_process *process = find_process(ret, t->pid);
    ret->waits_unknown_ns += t->tid == t->pid ? t->unknown_ns : 0;
    if (!process)
        return;
    struct io_report_thread *thread = &w->threads[ret->thread_count++];
    *thread = (struct io_report_thread){.process = (uint32_t)(process - ret->processes),
                                        .tid = t->tid,
                                        .ran_ns = t->ran_ns,
                                        .for_reads_ns = t->for_reads_ns,
                                        .inferred_ns = t->inferred_ns,
                                        .unknown_ns = t->unknown_ns};
    if (has_file(thread, ret))
        find_awaited(w, ret, thread);
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
    ret->waits_observed_ns = read_waits_observed_ns(w->sums);
    for (size_t i = 0; i < thread_count; i++)
        add_thread(w, &threads[i], ret);
    qsort(w->threads, ret->thread_count, sizeof(*w->threads), compare_threads);
    for (size_t i = 0; i < pair_count; i++)
        w->waits[ret->wait_count++] =
            (struct io_report_wait){pairs[i].tid, pairs[i].pid, pairs[i].reader, pairs[i].reader_pid, pairs[i].ns};
    ret->threads = w->threads;
    ret->waits = w->waits;
    return 0;
}
