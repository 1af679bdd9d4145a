/* Signal "blocked": why the load average is high although the CPUs are idle, and an event for each task that is blocked
 * for long. */
#include "sources/blocked/blocked.h"

#include "base/cleanup.h"
#include "base/starts_with.h"
#include "base/units.h"
#include "model/service_names.h"
#include "resolve/sample/samples.h"
#include "signals/blocked/blocked_groups.h"
#include "signals/event_rate.h"
#include "signals/signal.h"

#include "probes/blocked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THRESHOLD_NS 10000000000ull
#define SHOWN_FRAMES 4
#define SERVICES_MAX 64

struct blocked_signal {
    const struct signal_services *services;
    uint64_t threshold_ns;
    struct event_rate rate;
    bool is_high;                 /* the load, because of blocked tasks */
    struct blocked_walk last;     /* the last walk, and its tasks */
    struct blocked_groups groups; /* of the present walk, until its end */
    uint64_t oldest_ns;
    char names[SERVICES_MAX][SERVICE_NAME_BYTES];                   /* of services */
    uint32_t service_tasks[SERVICES_MAX], next_tasks[SERVICES_MAX]; /* of the last walk and of the present one */
    size_t name_count;
};

static int create_blocked(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct blocked_signal *s = calloc(1, sizeof(*s));
    (void)source;
    if (!s)
        return -ENOMEM;
    s->services = services;
    s->threshold_ns = ((const struct blocked_options *)settings)->threshold_ns;
    *ret_self = s;
    return 0;
}

static void destroy_blocked(void *self)
{
    free(self);
}

/* ---- one task ---- */

static bool check_task(const struct record_header *header)
{
    const struct blocked_record *r = (const struct blocked_record *)header;
    return header->size_bytes == sizeof(*r) && r->task.frames <= BLOCKED_FRAMES &&
           memchr(r->task.comm, 0, sizeof(r->task.comm)) && memchr(r->task.holder_comm, 0, sizeof(r->task.holder_comm));
}

/* Appends " < FUNCTION [MODULE]"; of the kernel's own functions, without a module. */
static void append_frame(const struct frame *frame, char out[BLOCKED_STACK_BYTES], size_t *used)
{
    const bool is_module = !starts_with(frame->mapping, "[kernel.");
    if (*used < BLOCKED_STACK_BYTES)
        *used += (size_t)snprintf(out + *used, BLOCKED_STACK_BYTES - *used, "%s%s%s%s", *used ? " < " : "",
                                  frame->function, is_module ? " " : "", is_module ? frame->mapping : "");
}

/* "request_wait_answer < fuse_simple_request < ...". The kernel leaves out its functions that make a task wait and that
 * take locks (schedule, down_write). Returns whether the task is in a driver of NVIDIA. */
static bool write_stack(const struct blocked_signal *s, const struct blocked_task *task, char out[BLOCKED_STACK_BYTES])
{
    size_t used = 0;
    unsigned shown = 0;
    bool is_in_driver = false;
    snprintf(out, BLOCKED_STACK_BYTES, "an unknown function");
    for (uint32_t i = 0; s->services->resolver && i < task->frames; i++) {
        struct frame frame;
        sample_kernel_frame(s->services->resolver, task->stack[i], &frame);
        is_in_driver |= starts_with(frame.mapping, "[nvidia");
        if (frame.function[0] && shown++ < SHOWN_FRAMES)
            append_frame(&frame, out, &used);
    }
    return is_in_driver;
}

static void write_text(const struct blocked_record *r, const char *stack, bool is_in_driver, char *out, size_t size)
{
    const struct blocked_task *t = &r->task;
    char age[32];
    units_format_duration(r->blocked_ns, age, sizeof(age));
    const int used = snprintf(out, size, "%s (thread %u) has been blocked for %s in %s%s", t->comm, t->tid, age,
                              is_in_driver ? "NVIDIA's driver: " : "", stack);
    if (used < 0 || (size_t)used >= size || !t->holder_tid)
        return;
    if (t->flags & BLOCKED_BY_CHILD)
        snprintf(out + used, size - (size_t)used, "; its child %s (process %u) has not yet executed a program",
                 t->holder_comm, t->holder_pid);
    else
        snprintf(out + used, size - (size_t)used, "; %s (thread %u) holds the lock", t->holder_comm, t->holder_tid);
}

/* A task that is blocked in NVIDIA's driver is an event of the signal "gpu": the driver hangs. */
static void emit_long(struct blocked_signal *s, const struct blocked_record *r, const char *stack, bool is_in_driver)
{
    const struct blocked_task *t = &r->task;
    char text[384], pid[16], tid[16], holder_pid[16], holder_tid[16];
    struct node_event_attribute attributes[NODE_EVENT_ATTRIBUTES_MAX];
    size_t used = 0;
    write_text(r, stack, is_in_driver, text, sizeof(text));
    snprintf(pid, sizeof(pid), "%u", t->pid);
    snprintf(tid, sizeof(tid), "%u", t->tid);
    snprintf(holder_pid, sizeof(holder_pid), "%u", t->holder_pid);
    snprintf(holder_tid, sizeof(holder_tid), "%u", t->holder_tid);
    attributes[used++] = (struct node_event_attribute){"process.pid", pid};
    attributes[used++] = (struct node_event_attribute){"thread.id", tid};
    attributes[used++] = (struct node_event_attribute){"thread.name", t->comm};
    attributes[used++] = (struct node_event_attribute){"stack", stack};
    if (t->holder_tid) {
        attributes[used++] = (struct node_event_attribute){"holder.pid", holder_pid};
        attributes[used++] = (struct node_event_attribute){"holder.thread.id", holder_tid};
        attributes[used++] = (struct node_event_attribute){"holder.thread.name", t->holder_comm};
    }
    struct node_event event = {.time_ns = r->h.time_ns,
                               .duration_ns = r->blocked_ns,
                               .name = "blocked.long",
                               .text = text,
                               .attributes = attributes,
                               .attribute_count = used};
    if (is_in_driver)
        event.name = "gpu.driver_hung";
    s->services->emit_event(s->services->pipeline, &event);
}

/* ---- services ---- */

static void count_service(struct blocked_signal *s, const struct blocked_task *task)
{
    struct processes *processes = s->services->processes;
    const bool is_kernel = task->flags & BLOCKED_KERNEL_THREAD;
    const struct process *process = processes && !is_kernel ? processes_find(processes, task->pid, 0) : NULL;
    const char *name = is_kernel ? "kernel"
                       : process ? processes_resource(processes, process)->service_name
                                 : task->comm;
    s->next_tasks[service_names_place(s->names, SERVICES_MAX, &s->name_count, name)]++;
}

/* Each walk begins anew; services without a blocked task are forgotten, so that the table has room. */
static void keep_services(struct blocked_signal *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->name_count; i++) {
        const uint32_t tasks = s->next_tasks[i];
        s->next_tasks[i] = 0;
        if (!tasks)
            continue;
        memmove(s->names[kept], s->names[i], sizeof(s->names[i]));
        s->service_tasks[kept++] = tasks;
    }
    s->name_count = kept;
}

static void take_task(void *self, const struct record_header *header)
{
    struct blocked_signal *s = self;
    const struct blocked_record *r = (const struct blocked_record *)header;
    char stack[BLOCKED_STACK_BYTES];
    const bool is_in_driver = write_stack(s, &r->task, stack);
    blocked_groups_add(&s->groups, stack, r->task.comm, r->task.tid, r->blocked_ns);
    count_service(s, &r->task);
    const bool was_long = r->blocked_ns - r->interval_ns >= s->threshold_ns;
    if (r->blocked_ns >= s->threshold_ns && !was_long && event_rate_allows(&s->rate, header->time_ns))
        emit_long(s, r, stack, is_in_driver);
}

/* ---- the end of a walk ---- */

static bool check_walk(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct blocked_walk);
}

static void emit_load(struct blocked_signal *s, const struct blocked_walk *w)
{
    char text[1024], groups[896], tasks[16], load[24];
    blocked_groups_text(&s->groups, groups, sizeof(groups));
    snprintf(tasks, sizeof(tasks), "%u", s->groups.tasks);
    snprintf(load, sizeof(load), "%u.%02u", w->load_hundredths / 100, w->load_hundredths % 100);
    snprintf(text, sizeof(text), "%s blocked tasks raise the load average, which is %s: %s", tasks, load, groups);
    const struct node_event_attribute attributes[] = {{"tasks", tasks}, {"load", load}};
    s->services->emit_event(s->services->pipeline, &(struct node_event){.time_ns = w->h.time_ns,
                                                                        .duration_ns = s->groups.oldest_ns,
                                                                        .name = "blocked.load",
                                                                        .text = text,
                                                                        .attributes = attributes,
                                                                        .attribute_count = array_size(attributes)});
}

/* Blocked tasks are why the load is high if they alone would give each CPU one; until they are less than half of that.
 */
static void take_walk(void *self, const struct record_header *header)
{
    struct blocked_signal *s = self;
    const struct blocked_walk *w = (const struct blocked_walk *)header;
    if (!s->is_high && s->groups.tasks && s->groups.tasks >= w->cpus) {
        s->is_high = true;
        emit_load(s, w);
    } else if (2 * s->groups.tasks < w->cpus) {
        s->is_high = false;
    }
    s->last = *w;
    s->oldest_ns = s->groups.oldest_ns;
    s->groups = (struct blocked_groups){0};
    keep_services(s);
}

static void put_metrics(void *self, struct metric_set *set)
{
    static const char load[] = "Tasks that count for the load average, by state, when the tasks were last read.";
    const struct blocked_signal *s = self;
    metric_add(set, "sonde_blocked_load_tasks", METRIC_GAUGE, "", load, s->last.runnable,
               METRIC_LABELS({"state", "runnable"}));
    metric_add(set, "sonde_blocked_load_tasks", METRIC_GAUGE, "", load, s->last.uninterruptible,
               METRIC_LABELS({"state", "uninterruptible"}));
    metric_add(set, "sonde_blocked_oldest_seconds", METRIC_GAUGE, "seconds",
               "How long the task that is blocked for longest has been blocked, at least; 0: none is.",
               (double)s->oldest_ns / 1e9, METRIC_NO_LABELS);
    for (size_t i = 0; i < s->name_count; i++)
        metric_add(set, "sonde_blocked_tasks", METRIC_GAUGE, "",
                   "Tasks that have been in uninterruptible sleep for 5 seconds or longer.", s->service_tasks[i],
                   METRIC_LABELS({"service_name", s->names[i]}));
}

static const struct record_type records[] = {
    {RECORD_BLOCKED, check_task, take_task},
    {RECORD_BLOCKED_WALK, check_walk, take_walk},
    {0},
};

#define FIELD(f) offsetof(struct blocked_options, f), sizeof(((struct blocked_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("blocked.enabled", "find tasks that are in uninterruptible sleep for long"),
    {"blocked.threshold", SETTING_DURATION, FIELD(threshold_ns), 5e9, 3600e9, "a duration of 5s to 1h, such as 10s",
     "a task that is blocked for longer is an event"},
    {0},
};

const struct signal signal_blocked = {
    .name = "blocked",
    .memory = {.fixed_bytes = 96u << 10},
    .source = &source_blocked,
    .flags = SIGNAL_EVENTS | SIGNAL_AUXILIARY,
    .records = records,
    .settings_bytes = sizeof(struct blocked_options),
    .defaults = &(const struct blocked_options){.enabled = true, .threshold_ns = THRESHOLD_NS},
    .settings = settings,
    .is_node_wide = signal_is_node_wide,
    .create = create_blocked,
    .destroy = destroy_blocked,
    .metrics = put_metrics,
};
