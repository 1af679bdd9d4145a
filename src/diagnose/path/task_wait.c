/* Searches the window's RECORDER_TASK; see task_wait.h. */
#include "diagnose/path/task_wait.h"

#include "diagnose/path/request_work.h"

#include <sys/syscall.h>

/* Between what a task does and what another one does for it, or the reverse. */
#define HAND_OVER_NS 1000000
#define QUESTION_NS  5000000 /* until another one has sent what the task asks: that one, too, waits for a CPU */

/* Both records were written at once. */
const struct recorder_record *task_record_of_operation(const struct flight_index *index,
                                                       const struct recorder_record *operation)
{
    const struct flight_window *window = flight_index_window(index);
    for (size_t i = flight_window_since(window, operation->time_ns);
         i < window->count && window->records[i].time_ns == operation->time_ns; i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->kind == RECORDER_TASK && r->flags == RECORDER_TASK_RUNS && r->tid == operation->tid)
            return r;
    }
    return NULL;
}

uint64_t task_of_operation(const struct flight_index *index, const struct recorder_record *operation)
{
    const struct recorder_record *task = task_record_of_operation(index, operation);
    return task ? task->object : 0;
}

uint64_t task_of_request(const struct flight_index *index, uint64_t socket, uint64_t begin_ns)
{
    const struct flight_list *list = flight_index_socket(index, socket);
    const uint32_t before = flight_list_before(list, begin_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; list && i < list->count && flight_index_spend(index); i++)
        if (list->events[i].role == FLIGHT_RECEIVES)
            return task_of_operation(index, list->events[i].record);
    return 0;
}

/* Whether the thread slept in (from, to) for anything but a lock whose holders are recorded. */
static bool has_slept(const struct flight_index *index, const struct flight_list *thread, uint64_t from_ns,
                      uint64_t to_ns)
{
    for (uint32_t i = flight_list_before(thread, to_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns <= from_ns)
            break;
        if (e->role == FLIGHT_OUT && e->state == THREAD_BLOCKED &&
            !flight_thread_is_held_lock(index, (uint32_t)thread->key, e->record->object))
            return true;
    }
    return false;
}

/* The record in a thread's list `tasks`, of the time of event `i`, that a job was finished for task `id`; NULL: no such
 * record. A job is finished for several tasks at once if they wait for each other. */
static const struct recorder_record *finished_for(const struct flight_list *tasks, uint32_t i, uint64_t id)
{
    const uint64_t t_ns = tasks->events[i].record->time_ns;
    for (; i != FLIGHT_NONE && tasks->events[i].record->time_ns == t_ns; i--) {
        const struct recorder_record *r = tasks->events[i].record;
        if (r->flags == RECORDER_TASK_FINISHED && r->object == id)
            return r;
    }
    return NULL;
}

/* A thread's record that it has finished a job is written when the thread sends the message, and may be written again
 * after that. Returns the last record before the message was sent. `finished`: the last record. */
static const struct recorder_record *at_message(const struct flight_index *index,
                                                const struct recorder_record *finished)
{
    const struct flight_list *thread = flight_index_thread(index, finished->tid),
                             *tasks = flight_index_tasks_of(index, finished->tid);
    const uint32_t sent = flight_operation_before(thread, finished->time_ns);
    if (sent == FLIGHT_NONE || thread->events[sent].role != FLIGHT_SENDS)
        return finished;
    const uint64_t sent_ns = thread->events[sent].record->time_ns;
    uint32_t i = flight_list_before(tasks, sent_ns);
    while (i != FLIGHT_NONE && tasks->events[i].record->flags != RECORDER_TASK_FINISHED && flight_index_spend(index))
        i--;
    const struct recorder_record *r = i == FLIGHT_NONE ? NULL : finished_for(tasks, i, finished->object);
    return r && !has_slept(index, thread, sent_ns, finished->time_ns) ? r : finished;
}

const struct recorder_record *task_finished_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                                 uint64_t after_ns, uint64_t before_ns)
{
    const struct flight_list *task = flight_index_task(index, pid, id);
    for (uint32_t i = flight_list_before(task, before_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct recorder_record *r = task->events[i].record;
        if (r->time_ns <= after_ns)
            break;
        if (r->flags == RECORDER_TASK_FINISHED && r->object == id && recorder_high(r->value) == pid)
            return at_message(index, r);
    }
    return NULL;
}

/* Whether the thread waits for work since this switch: for a futex that is no lock whose holders are recorded. NULL:
 * since before the window, which is longer than a wait for a lock. */
static bool is_idle(const struct flight_index *index, const struct recorder_record *left)
{
    return !left || (left->syscall == SYS_futex && !flight_thread_is_held_lock(index, left->tid, left->object));
}

/* When the thread, which did a job at `t_ns`, first waited for work after that: the switch; NULL: not before
 * `before_ns`.
 */
static const struct recorder_record *next_idle(const struct flight_index *index, uint32_t tid, uint64_t t_ns,
                                               uint64_t before_ns)
{
    const struct flight_list *thread = flight_index_thread(index, tid);
    const uint32_t before = flight_list_before(thread, t_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; thread && i < thread->count && flight_index_spend(index);
         i++) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns >= before_ns)
            break;
        if (e->role == FLIGHT_OUT && e->state == THREAD_BLOCKED && is_idle(index, e->record))
            return e->record;
    }
    return NULL;
}

const struct recorder_record *task_done_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                             uint64_t after_ns, uint64_t before_ns)
{
    const struct flight_list *task = flight_index_task(index, pid, id);
    const struct recorder_record *last = NULL;
    for (uint32_t i = flight_list_before(task, before_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct recorder_record *r = task->events[i].record;
        if (r->time_ns <= after_ns)
            break;
        if (r->flags != RECORDER_TASK_WORKS || r->object != id || recorder_high(r->value) != pid)
            continue;
        const struct recorder_record *idle = next_idle(index, r->tid, r->time_ns, before_ns);
        if (idle && (!last || idle->time_ns > last->time_ns) &&
            !task_job_before(index, r->tid, r->time_ns, idle->time_ns))
            last = idle;
    }
    return last;
}

bool task_is_any_finished(const struct flight_index *index, uint32_t pid, uint64_t after_ns, uint64_t before_ns)
{
    const struct flight_window *window = flight_index_window(index);
    for (size_t i = flight_window_since(window, before_ns); i-- > 0 && flight_index_spend(index);) {
        const struct recorder_record *r = &window->records[i];
        if (r->time_ns <= after_ns)
            break;
        if (r->kind == RECORDER_TASK && r->flags == RECORDER_TASK_FINISHED && recorder_high(r->value) == pid)
            return true;
    }
    return false;
}

const struct recorder_record *task_job_before(const struct flight_index *index, uint32_t tid, uint64_t from_ns,
                                              uint64_t to_ns)
{
    const struct flight_list *tasks = flight_index_tasks_of(index, tid);
    for (uint32_t i = flight_list_before(tasks, to_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct recorder_record *r = tasks->events[i].record;
        if (r->time_ns < from_ns)
            break;
        if (r->flags == RECORDER_TASK_FINISHED)
            return r;
    }
    return NULL;
}

const struct recorder_record *task_job_after(const struct flight_index *index, uint32_t tid, uint64_t t_ns)
{
    const struct flight_list *tasks = flight_index_tasks_of(index, tid);
    const uint32_t before = flight_list_before(tasks, t_ns + 1);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; tasks && i < tasks->count && flight_index_spend(index); i++)
        if (tasks->events[i].record->flags == RECORDER_TASK_FINISHED)
            return tasks->events[i].record;
    return NULL;
}

bool task_job_is_for(const struct flight_index *index, const struct recorder_record *job, uint64_t id)
{
    const struct flight_list *tasks = flight_index_tasks_of(index, job->tid);
    return finished_for(tasks, flight_list_before(tasks, job->time_ns + 1), id) != NULL;
}

bool task_job_is_bounded(const struct flight_index *index, const struct recorder_record *job, uint32_t loop_tid,
                         uint64_t from_ns)
{
    const struct flight_list *thread = flight_index_thread(index, job->tid);
    if (!thread || task_job_before(index, job->tid, from_ns, job->time_ns))
        return thread != NULL;
    for (uint32_t i = flight_list_before(thread, job->time_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns < from_ns)
            break;
        if (e->role == FLIGHT_WOKEN && e->state == THREAD_RUNNABLE && recorder_low(e->record->value) == loop_tid &&
            !(e->record->flags & (RECORDER_IN_SOFTIRQ | RECORDER_IN_HARDIRQ)) &&
            is_idle(index, flight_thread_span(thread, e->record->time_ns + 1).left))
            return true;
    }
    const struct thread_span span = flight_thread_span(thread, from_ns);
    return span.state == THREAD_BLOCKED && is_idle(index, span.left);
}

/* Whether a wait of the thread ended in [from, to), for anything but a lock whose holders are recorded. */
static bool was_woken(const struct flight_index *index, const struct flight_list *thread, uint64_t from_ns,
                      uint64_t to_ns)
{
    for (uint32_t i = flight_list_before(thread, to_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct flight_event *e = &thread->events[i];
        if (e->record->time_ns < from_ns)
            break;
        if (e->role != FLIGHT_WOKEN || e->state != THREAD_RUNNABLE)
            continue;
        const struct recorder_record *left = flight_thread_span(thread, e->record->time_ns + 1).left;
        if (!left || !flight_thread_is_held_lock(index, left->tid, left->object))
            return true;
    }
    return false;
}

/* Whether thread `tid`, which ran in [from, to), may have finished a job then; see task_may_have_unseen_job. */
static bool may_have_finished(const struct flight_index *index, const struct flight_list *loop, uint32_t tid,
                              uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns)
{
    const struct flight_list *thread = flight_index_thread(index, tid);
    return thread && thread != loop && thread->pid == loop->pid && was_woken(index, thread, begin_ns, to_ns) &&
           !task_job_before(index, tid, from_ns, to_ns);
}

bool task_may_have_unseen_job(const struct flight_index *index, const struct flight_list *loop, uint64_t begin_ns,
                              uint64_t from_ns, uint64_t to_ns)
{
    const struct flight_window *window = flight_index_window(index);
    if (!flight_index_has_jobs_by_write(index, loop->pid))
        return false;
    for (size_t i = flight_window_since(window, from_ns); i < window->count && flight_index_spend(index); i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->time_ns >= to_ns)
            break;
        if (r->kind == RECORDER_SWITCH &&
            (may_have_finished(index, loop, r->tid, begin_ns, from_ns, to_ns) ||
             may_have_finished(index, loop, recorder_low(r->value), begin_ns, from_ns, to_ns)))
            return true;
    }
    return false;
}

/* The last record of the task in [begin, t); NULL: none. */
static const struct recorder_record *previous_record(const struct flight_index *index, uint32_t pid, uint64_t id,
                                                     uint64_t begin_ns, uint64_t t_ns)
{
    const struct flight_list *task = id ? flight_index_task(index, pid, id) : NULL;
    for (uint32_t i = flight_list_before(task, t_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct recorder_record *r = task->events[i].record;
        if (r->time_ns < begin_ns)
            break;
        if (r->object == id && recorder_high(r->value) == pid && r->flags < RECORDER_TASK_FINISHED)
            return r;
    }
    return NULL;
}

const struct recorder_record *task_run_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                            uint64_t after_ns, uint64_t before_ns)
{
    const struct recorder_record *r;
    while ((r = previous_record(index, pid, id, after_ns, before_ns)) && r->flags != RECORDER_TASK_RUNS)
        before_ns = r->time_ns;
    return r;
}

const struct recorder_record *task_wait_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                             uint64_t begin_ns, uint64_t t_ns)
{
    const struct recorder_record *wait = previous_record(index, pid, id, begin_ns, t_ns);
    if (!wait || wait->flags == RECORDER_TASK_RUNS)
        return NULL;
    for (const struct recorder_record *r; (r = previous_record(index, pid, id, begin_ns, wait->time_ns)); wait = r)
        if (r->flags != wait->flags)
            break;
    return wait;
}

bool task_was_seen(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t begin_ns, uint64_t t_ns)
{
    return previous_record(index, pid, id, begin_ns, t_ns) != NULL;
}

const struct recorder_record *task_place_find(const struct flight_index *index, uint32_t pid, uint64_t id, uint32_t tid,
                                              uint64_t begin_ns, uint64_t t_ns)
{
    const struct recorder_record *next_wait = NULL;
    uint64_t before_ns = t_ns + HAND_OVER_NS;
    for (const struct recorder_record *r; (r = previous_record(index, pid, id, begin_ns, before_ns));
         before_ns = r->time_ns) {
        const bool runs = r->flags == RECORDER_TASK_RUNS;
        if (r->time_ns >= t_ns && runs && r->tid == tid)
            return r;
        if (r->time_ns <= t_ns)
            return next_wait ?: r;
        next_wait = runs ? NULL : r;
    }
    return next_wait;
}

/* The last record of a task that thread `tid` runs in [from, t); NULL: none. */
static const struct recorder_record *last_run(const struct flight_index *index, uint32_t tid, uint64_t from_ns,
                                              uint64_t t_ns)
{
    const struct flight_list *tasks = flight_index_tasks_of(index, tid);
    for (uint32_t i = flight_list_before(tasks, t_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct recorder_record *r = tasks->events[i].record;
        if (r->time_ns < from_ns)
            break;
        if (r->flags == RECORDER_TASK_RUNS)
            return r;
    }
    return NULL;
}

const struct recorder_record *task_own_find(const struct flight_index *index, uint32_t tid, uint64_t id,
                                            uint64_t from_ns, uint64_t t_ns)
{
    const struct recorder_record *run = id ? last_run(index, tid, from_ns + 1, t_ns) : NULL;
    return run && run->object == id ? run : NULL;
}

const struct recorder_record *task_other_find(const struct flight_index *index, uint32_t tid, uint64_t id,
                                              uint64_t from_ns, uint64_t t_ns)
{
    const struct recorder_record *run = id ? last_run(index, tid, from_ns, t_ns) : NULL;
    return run && run->object != id ? run : NULL;
}

bool task_serves(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t except, uint64_t from_ns,
                 uint64_t to_ns)
{
    for (const struct recorder_record *r; (r = previous_record(index, pid, id, from_ns, to_ns)); to_ns = r->time_ns) {
        const struct flight_list *thread = flight_index_thread(index, r->tid);
        const uint32_t i = flight_operation_before(thread, r->time_ns + 1);
        const struct recorder_record *operation = i == FLIGHT_NONE ? NULL : thread->events[i].record;
        if (r->flags == RECORDER_TASK_RUNS && operation && operation->time_ns == r->time_ns &&
            operation->object != except && request_work_is_served(index, operation))
            return true;
    }
    return false;
}

/* Returns the question before this record of a read: the last send on its socket; NULL if there is no send. */
static const struct recorder_record *find_question(const struct flight_index *index, const struct recorder_record *read)
{
    const struct flight_list *socket = flight_record_socket(index, read);
    const uint32_t before = flight_list_before(socket, read->time_ns);
    const uint32_t send = before == FLIGHT_NONE ? FLIGHT_NONE : socket->events[before].send;
    return send == FLIGHT_NONE ? NULL : socket->events[send].record;
}

/* Whether the task that made this record of a socket serves another request. */
static bool is_of_another(const struct flight_index *index, uint32_t pid, uint64_t except,
                          const struct recorder_record *operation, const struct recorder_record *wait, uint64_t t_ns)
{
    return task_serves(index, pid, task_of_operation(index, operation), except, wait->time_ns, t_ns + 1);
}

const struct recorder_record *task_answer_find(const struct flight_index *index, uint32_t pid, uint64_t except,
                                               const struct recorder_record *wait, uint64_t begin_ns, uint64_t t_ns)
{
    const struct flight_window *window = flight_index_window(index);
    const uint64_t since_ns = wait->time_ns > begin_ns + HAND_OVER_NS ? wait->time_ns - HAND_OVER_NS : begin_ns;
    for (size_t i = flight_window_since(window, t_ns + 1); i-- > 0 && flight_index_spend(index);) {
        const struct recorder_record *r = &window->records[i];
        if (r->time_ns <= wait->time_ns || r->time_ns + HAND_OVER_NS < t_ns)
            break;
        if (r->kind != RECORDER_RECEIVE || request_work_is_served(index, r))
            continue;
        const struct flight_list *thread = flight_index_thread(index, r->tid);
        const struct recorder_record *asked = find_question(index, r);
        if (thread && thread->pid == pid && asked && asked->time_ns >= since_ns &&
            asked->time_ns <= wait->time_ns + QUESTION_NS && !is_of_another(index, pid, except, r, wait, t_ns) &&
            !is_of_another(index, pid, except, asked, wait, t_ns))
            return r;
    }
    return NULL;
}

const struct recorder_record *task_created_wait_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                                     const struct recorder_record *wait, uint64_t t_ns)
{
    const struct flight_window *window = flight_index_window(index);
    const uint64_t since_ns = wait->time_ns > HAND_OVER_NS ? wait->time_ns - HAND_OVER_NS : 0;
    const struct recorder_record *found = NULL;
    for (size_t i = flight_window_since(window, t_ns > HAND_OVER_NS ? t_ns - HAND_OVER_NS : 0);
         i < window->count && window->records[i].time_ns <= t_ns + HAND_OVER_NS && flight_index_spend(index); i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->kind != RECORDER_TASK || recorder_high(r->value) != pid ||
            recorder_low(r->value) != recorder_creator(id) || (found && found->object == r->object))
            continue;
        const struct recorder_record *its_wait =
            task_wait_find(index, pid, r->object, since_ns, r->time_ns < t_ns ? r->time_ns : t_ns);
        if (its_wait && found)
            return NULL;
        found = its_wait ?: found;
    }
    return found;
}

void task_wait_explain(const struct recorder_record *wait, struct path_segment *segment)
{
    segment->is_inferred = true;
    switch (wait->flags) {
    case RECORDER_TASK_WAITS_TIMER:
        segment->kind = REQUEST_PART_SLEEP;
        segment->reason = "its goroutine slept";
        break;
    case RECORDER_TASK_WAITS_LOCK:
        segment->kind = REQUEST_PART_LOCK;
        segment->owner = REQUEST_OWNER_UNKNOWN;
        segment->reason = "its goroutine waited for a lock; the holder is not known";
        break;
    case RECORDER_TASK_WAITS_GC:
        segment->kind = REQUEST_PART_LOCK;
        segment->owner = REQUEST_OWNER_UNKNOWN;
        segment->reason = "its goroutine waited for garbage collection";
        break;
    default:
        segment->kind = REQUEST_PART_UNATTRIBUTED;
        segment->owner = REQUEST_OWNER_UNKNOWN;
        segment->reason = wait->flags == RECORDER_TASK_WAITS_IO     ? "its goroutine waited for a socket or the like"
                          : wait->flags == RECORDER_TASK_WAITS_TASK ? "its goroutine waited for another one"
                                                                    : "its goroutine waited";
    }
}
