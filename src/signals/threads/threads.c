/* Signal "threads": reads the threads of a process that may hang, and their stacks, when process_threads.h is asked for
 * them. It has no samples. */
#include "sources/threads/threads.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "resolve/interpreter/interpreters.h"
#include "resolve/proc/proc_files.h"
#include "resolve/process/processes.h"
#include "resolve/sample/samples.h"
#include "signals/process_threads.h"
#include "signals/signal.h"
#include "signals/stack_record.h"

#include "probes/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREPARE_NS 500000000ull  /* for the mappings and unwind tables of the process */
#define AGAIN_NS   1000000000ull /* after a reading that lacked some of them */

struct threads_signal {
    const struct signal_services *services;
    void *source;              /* NULL: a replay */
    uint32_t pid;              /* the process that is asked for; 0: none */
    bool is_reading;           /* its records arrive */
    bool is_incomplete;        /* a stack of this reading could not be walked to its end yet */
    struct thread_record last; /* the thread whose stack comes next */
    uint64_t next_ns;          /* when the next reading begins */
};

static int create_threads(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    struct threads_signal *s = services->threads ? calloc(1, sizeof(*s)) : NULL;
    (void)settings;
    if (services->threads && !s)
        return -ENOMEM;
    if (s)
        *s = (struct threads_signal){.services = services, .source = source};
    *ret_self = s;
    return 0;
}

static void destroy_threads(void *self)
{
    free(self);
}

/* ---- records ---- */

static bool check_thread(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct thread_record);
}

static void take_thread(void *self, const struct record_header *header)
{
    struct threads_signal *s = self;
    const struct thread_record *r = (const struct thread_record *)header;
    s->last = *r;
    if (header->pid != process_threads_asked(s->services->threads))
        return;
    process_threads_put_wait(s->services->threads, header->tid, r->waited_ns);
    if (r->flags & THREAD_ON_CPU) /* a sample of the CPU profile will have its stack */
        s->is_incomplete |= !process_threads_has_stack(s->services->threads, header->tid);
}

static bool may_improve(const struct stack_record *walked)
{
    return walked->user_end == UNWIND_END_NOT_RUNNING || walked->user_end == UNWIND_END_NO_PROCESS ||
           walked->user_end == UNWIND_END_NO_TABLE;
}

/* Whether the thread has not run since its stack was read. */
static bool still_sleeps(const struct thread_record *r)
{
    uint64_t switches;
    return proc_read_switches(r->h.pid, r->h.tid, &switches) == 0 && switches == r->switches;
}

/* Appends the interpreter's frames to the copy of a stack in `room`; returns it, or `record` if it has none. */
static const struct stack_record *walk_interpreter(const struct threads_signal *s, const struct stack_record *record,
                                                   struct stack_record *room)
{
    const struct sleeping_thread thread = {.read = processes_read_memory,
                                           .processes = s->services->processes,
                                           .process =
                                               processes_find(s->services->processes, record->h.pid, record->cgroup_id),
                                           .pointer = s->last.thread_pointer};
    if (!room || !thread.process || s->last.h.tid != record->h.tid)
        return record;
    memcpy(room, record, record->h.size_bytes);
    interpreters_walk_sleeping(s->services->interpreters, &thread, room);
    return still_sleeps(&s->last) ? room : record;
}

static void take_stack(void *self, const struct record_header *header)
{
    struct threads_signal *s = self;
    const struct stack_record *record = (const struct stack_record *)header;
    _cleanup_free_ struct stack_record *room = malloc(RECORD_MAX_BYTES);
    struct losses not_counted = {0}; /* a stack that lacks something is read again */
    struct sample sample;
    s->services->note_stack(s->services->pipeline, header->pid, record->cgroup_id, header->time_ns);
    if (header->pid != process_threads_asked(s->services->threads))
        return;
    const struct stack_record *walked = sample_walk_copy(s->services->resolver, walk_interpreter(s, record, room));
    s->is_incomplete |= may_improve(walked);
    if (sample_resolve(s->services->resolver, walked, &not_counted, &sample) != -EBADMSG)
        process_threads_put_stack(s->services->threads, header->tid, sample.frames, sample.frame_count);
}

static bool check_end(const struct record_header *header)
{
    return header->size_bytes == sizeof(struct threads_end);
}

static void take_end(void *self, const struct record_header *header)
{
    struct threads_signal *s = self;
    s->is_reading = false;
    if (header->pid != s->pid)
        return;
    s->next_ns = header->time_ns + AGAIN_NS;
    if (!s->is_incomplete)
        process_threads_complete(s->services->threads);
}

static const struct record_type records[] = {
    {RECORD_THREAD, check_thread, take_thread},
    {RECORD_THREAD_STACK, stack_record_check, take_stack},
    {RECORD_THREADS_END, check_end, take_end},
    {0},
};

/* ---- reading ---- */

static void begin_question(struct threads_signal *s, uint32_t pid, uint64_t now_ns)
{
    s->pid = pid;
    s->next_ns = now_ns + PREPARE_NS;
    if (pid)
        s->services->note_stack(s->services->pipeline, pid, 0, now_ns);
}

static void read_asked(void *self, const struct mapped_processes *mapped)
{
    struct threads_signal *s = self;
    const uint32_t pid = process_threads_asked(s->services->threads);
    const uint64_t now_ns = clock_monotonic_ns();
    (void)mapped;
    if (pid != s->pid)
        begin_question(s, pid, now_ns);
    if (!pid || !s->source || s->is_reading || now_ns < s->next_ns)
        return;
    s->is_incomplete = false;
    s->is_reading = threads_source_read(s->source, pid) == 0;
    s->next_ns = now_ns + AGAIN_NS; /* after a failure */
}

extern const struct signal signal_cuda;

const struct signal signal_threads = {
    .name = "threads",
    .memory = {.fixed_bytes = 512u << 10},
    .source = &source_threads,
    .flags = SIGNAL_AUXILIARY | SIGNAL_UNWINDS | SIGNAL_THREADS,
    .serves = (const struct signal *const[]){&signal_cuda, NULL},
    .records = records,
    .is_node_wide = signal_is_node_wide,
    .create = create_threads,
    .destroy = destroy_threads,
    .turn = read_asked,
};
