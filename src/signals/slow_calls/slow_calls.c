/* Signal "slow_calls": system calls in which threads wait for long (which ones: diagnose/slow_waits.h), by service. It
 * has no programs of its own: it reads what the flight recorder has written, a few times a second. Where a thread
 * waited is known if "waits" watches its process: it does so for a minute after a slow wait. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/starts_with.h"
#include "base/units.h"
#include "diagnose/code/stack_text.h"
#include "diagnose/flight/syscalls.h"
#include "diagnose/slow_waits.h"
#include "resolve/proc/proc_files.h"
#include "resolve/process/processes.h"
#include "signals/recent_waits.h"
#include "signals/signal.h"
#include "signals/slow_calls/slow_call_counts.h"
#include "sources/tables/flight_recorder.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THRESHOLD_NS 100000000
#define INTERVAL_NS  100000000
#define DELAY_NS     100000000 /* records are read so late that their stacks have come, which a thread that runs sends */
#define RECORDS_MAX  32768

struct slow_calls_options {
    bool enabled;
    uint64_t threshold_ns;
};

struct slow_calls {
    const struct signal_services *services;
    struct slow_waits *waits;
    struct slow_call_counts *counts;
    uint64_t read_ns; /* records are read up to then; 0: none is */
    uint64_t unread_ns;
    bool is_shed;
};

static void destroy_slow_calls(void *self)
{
    struct slow_calls *s = self;
    if (!s)
        return;
    slow_waits_free(s->waits);
    slow_call_counts_free(s->counts);
    free(s);
}

static void slow_calls_freep(struct slow_calls **s)
{
    destroy_slow_calls(*s);
}

static int create_slow_calls(const struct signal_services *services, const void *settings, void *source,
                             void **ret_self)
{
    (void)source;
    *ret_self = NULL;
    if (!services->recorder)
        return 0;
    _cleanup_(slow_calls_freep) struct slow_calls *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->services = services;
    int r = slow_waits_new(((const struct slow_calls_options *)settings)->threshold_ns, &s->waits)
                ?: slow_call_counts_new(&s->counts);
    if (r == 0)
        *ret_self = take_ptr(s);
    return r;
}

/* ---- one wait ---- */

/* A thread that has ended may have left the name of its process. */
static void name_thread(const struct slow_calls *s, const struct slow_wait *wait, char out[16])
{
    struct proc_stat stat;
    _cleanup_close_ int fd = proc_open(wait->tid);
    if (fd >= 0 && proc_read_stat(fd, &stat) == 0)
        memcpy(out, stat.command, sizeof(stat.command));
    else if (s->services->processes)
        processes_command(s->services->processes, wait->pid, out);
}

static const char *service_of(const struct slow_calls *s, const struct slow_wait *wait, const char *thread)
{
    struct processes *processes = s->services->processes;
    const struct process *process = processes ? processes_find(processes, wait->pid, 0) : NULL;
    return process ? processes_resource(processes, process)->service_name : thread[0] ? thread : "unknown";
}

/* What the text and the attributes of an event are made from. */
struct described {
    const struct slow_wait *wait;
    const char *call, *thread, *service;
    struct recorder_file file; /* its name and file system are "" if they are not known */
    struct path_wait place;    /* where the thread waited; texts are "" if that is not known */
    uint64_t count;            /* of the service's waits since its last event */
};

/* ", in handle() app.py:12: jbd2_log_wait_commit < ext4_sync_file" */
static void put_place(const struct described *d, struct buf *out)
{
    _cleanup_buf_ struct buf caller = {0};
    stack_text_put_caller(&caller, d->place.where, d->call);
    if (caller.size)
        buf_printf(out, ", in %s", caller.data);
    buf_puts(out, d->place.kernel);
}

static void put_text(const struct described *d, struct buf *out)
{
    char duration[32];
    buf_printf(out, "%s (thread %u) waited %s in %s", d->thread[0] ? d->thread : "a thread", d->wait->tid,
               units_format_duration(d->wait->end_ns - d->wait->start_ns, duration, sizeof(duration)), d->call);
    if (d->file.name[0])
        buf_printf(out, " of %s", d->file.name);
    if (d->file.file_system[0])
        buf_printf(out, " (%s)", d->file.file_system);
    if (d->wait->is_memory_stall)
        buf_puts(out, ", stalled on memory");
    put_place(d, out);
    if (d->count > 1)
        buf_printf(out, "; %llu slow waits of %s since its last event", (unsigned long long)d->count, d->service);
}

/* The frames, leaf first, in one line. */
static void put_stack(const char *frames, struct buf *out)
{
    for (const char *at = frames; *at; at++)
        if (*at == '\n')
            buf_puts(out, " < ");
        else
            buf_putc(out, *at);
}

static void emit(const struct slow_calls *s, const struct described *d)
{
    _cleanup_buf_ struct buf text = {0}, stack = {0};
    char pid[16], tid[16], count[24];
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    size_t used = 0;
    put_text(d, &text);
    put_stack(d->place.stack, &stack);
    if (buf_error(&text) < 0 || buf_error(&stack) < 0)
        return;
    snprintf(pid, sizeof(pid), "%u", d->wait->pid);
    snprintf(tid, sizeof(tid), "%u", d->wait->tid);
    snprintf(count, sizeof(count), "%llu", (unsigned long long)d->count);
    attributes[used++] = (struct node_event_attribute){"service.name", d->service};
    attributes[used++] = (struct node_event_attribute){"process.pid", pid};
    attributes[used++] = (struct node_event_attribute){"thread.id", tid};
    attributes[used++] = (struct node_event_attribute){"thread.name", d->thread};
    attributes[used++] = (struct node_event_attribute){"system_call", d->call};
    if (d->file.name[0])
        attributes[used++] = (struct node_event_attribute){"file.name", d->file.name};
    if (stack.size)
        attributes[used++] = (struct node_event_attribute){"stack", stack.data};
    attributes[used++] = (struct node_event_attribute){"count", count};
    s->services->emit_event(s->services->pipeline,
                            &(struct node_event){.time_ns = d->wait->end_ns,
                                                 .duration_ns = d->wait->end_ns - d->wait->start_ns,
                                                 .name = "slow_calls.long",
                                                 .text = text.data,
                                                 .attributes = attributes,
                                                 .attribute_count = used});
}

/* The stacks of the process's waits are recorded from now on; what the kernel lacks to unwind them is published. */
static void want_stacks(const struct slow_calls *s, const struct slow_wait *wait)
{
    struct recent_waits *recent = s->services->recent_waits;
    if (recent && recent_waits_want(recent, wait->pid, clock_monotonic_ns()))
        s->services->note_stack(s->services->pipeline, wait->pid, 0, wait->end_ns);
}

/* The wait's stack, if its longest known wait was most of it. */
static void find_place(const struct slow_calls *s, const struct slow_wait *wait, struct path_wait *ret)
{
    struct recent_waits *recent = s->services->recent_waits;
    const bool is_known = recent && recent_waits_find(recent, wait->tid, wait->start_ns, wait->end_ns, ret);
    if (!is_known || ret->ns < (wait->end_ns - wait->start_ns) / 2)
        *ret = (struct path_wait){0, "", "", ""};
}

/* Workers of io_uring have no system call of their own: their registers are those of the thread that created them. */
static bool is_worker(const char *thread)
{
    return starts_with(thread, "iou-");
}

static void take_wait(void *self, const struct slow_wait *wait)
{
    struct slow_calls *s = self;
    char thread[16] = "", call[32];
    struct described d = {.wait = wait, .call = syscall_name(wait->syscall, call, sizeof(call)), .thread = thread};
    name_thread(s, wait, thread);
    if (is_worker(thread))
        return;
    want_stacks(s, wait);
    d.service = service_of(s, wait, thread);
    if (!slow_call_counts_add(s->counts, d.service, d.call, wait->end_ns - wait->start_ns, wait->end_ns, &d.count))
        return;
    if (wait->file)
        flight_recorder_file(s->services->recorder, wait->file, &d.file);
    find_place(s, wait, &d.place);
    emit(s, &d);
}

/* ---- windows ---- */

/* The time up to complete_from_ns was overwritten or is too much; or nothing was recorded. */
static uint64_t missing_ns(const struct flight_window *window, uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t complete_ns = window->complete_from_ns < to_ns ? window->complete_from_ns : to_ns;
    return complete_ns > from_ns ? complete_ns - from_ns : 0;
}

static void read_records(void *self, const struct mapped_processes *mapped)
{
    struct slow_calls *s = self;
    const uint64_t now_ns = clock_monotonic_ns(), from_ns = s->read_ns, to_ns = now_ns - DELAY_NS;
    struct flight_window window;
    (void)mapped;
    if (s->is_shed || (from_ns && to_ns < from_ns + INTERVAL_NS))
        return;
    s->read_ns = from_ns ? to_ns : now_ns;
    if (!from_ns)
        return;
    if (flight_recorder_window(s->services->recorder, from_ns, to_ns - 1, RECORDS_MAX, &window) < 0) {
        s->unread_ns += to_ns - from_ns;
        slow_waits_forget(s->waits);
        return;
    }
    s->unread_ns += missing_ns(&window, from_ns, to_ns);
    slow_waits_follow(s->waits, &window, from_ns, take_wait, s);
    flight_recorder_window_free(&window);
}

static void shed_reading(void *self, enum source_detail detail)
{
    struct slow_calls *s = self;
    const bool is_shed = detail >= SOURCE_DETAIL_NO_OFF_CPU;
    if (is_shed == s->is_shed)
        return;
    s->is_shed = is_shed;
    s->read_ns = 0;
    slow_waits_forget(s->waits);
}

static void put_metrics(void *self, struct metric_set *set)
{
    const struct slow_calls *s = self;
    slow_call_counts_metrics(s->counts, set);
    metric_add(set, "sonde_slow_calls_unread_seconds", METRIC_COUNTER, "seconds",
               "Time whose records in the flight recorder were overwritten, too many to be read, or not written.",
               (double)s->unread_ns / 1e9, METRIC_NO_LABELS);
    metric_add(set, "sonde_slow_calls_unfollowed", METRIC_COUNTER, "",
               "Waits that were not followed, because too many threads waited.", (double)slow_waits_lost(s->waits),
               METRIC_NO_LABELS);
}

static const struct source_level levels[] = {
    {SOURCE_DETAIL_FULL, "slow system calls"},
    {SOURCE_DETAIL_NO_OFF_CPU, "no slow system calls"},
    {0},
};

#define FIELD(f) offsetof(struct slow_calls_options, f), sizeof(((struct slow_calls_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("slow_calls.enabled", "find system calls in which threads wait for long"),
    {"slow_calls.threshold", SETTING_DURATION, FIELD(threshold_ns), 1e6, 3600e9,
     "a duration of 1ms to 1h, such as 100ms", "a wait in a system call that lasts as long or longer is slow"},
    {0},
};

extern const struct signal signal_recorder;

const struct signal signal_slow_calls = {
    .name = "slow_calls",
    .memory = {.fixed_bytes = 2304u << 10},
    .flags = SIGNAL_EVENTS | SIGNAL_AUXILIARY,
    .serves = (const struct signal *const[]){&signal_recorder, NULL},
    .settings_bytes = sizeof(struct slow_calls_options),
    .defaults = &(const struct slow_calls_options){.threshold_ns = THRESHOLD_NS},
    .settings = settings,
    .is_node_wide = signal_is_node_wide,
    .create = create_slow_calls,
    .destroy = destroy_slow_calls,
    .turn = read_records,
    .metrics = put_metrics,
    .levels = levels,
    .shed = shed_reading,
};
