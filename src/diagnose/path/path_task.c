/* The waits of a request's task; see path_task.h. */
#include "diagnose/path/path_task.h"

#include "diagnose/path/path_marks.h"
#include "diagnose/path/path_ready.h"
#include "diagnose/path/task_handler.h"
#include "diagnose/path/task_request.h"
#include "diagnose/path/task_wait.h"

void path_task_start(struct path_walk *w, const struct recorder_record *reply)
{
    const uint64_t socket = w->subjects[0], begin_ns = w->out->begin_ns;
    w->task = reply ? task_of_operation(w->index, reply) : 0;
    w->is_task_own = reply && task_request_of_run(w->index, reply->tid, reply->time_ns) == socket;
    w->loop_tid = w->is_task_own && !w->schedules_itself ? reply->tid : 0;
    if (!w->schedules_itself)
        return;
    if (!reply || !task_was_seen(w->index, w->task_pid, w->task, begin_ns, reply->time_ns))
        w->task = task_of_request(w->index, socket, begin_ns); /* another one only sends the reply */
    const uint64_t handler = reply ? task_handler_find(w->index, w->task_pid, socket, begin_ns, reply) : 0;
    w->is_handler = handler != 0;
    w->task = handler ? handler : w->task;
}

/* Other tasks sent the call of this task and read its answer: goes on at the sender of the answer. False: no such
 * answer was read. */
static bool follow_answer(struct path_walk *w, const struct recorder_record *wait)
{
    const struct recorder_record *read =
        task_answer_find(w->index, w->task_pid, w->subjects[0], wait, w->out->begin_ns, w->t_ns);
    const struct work_arrivals arrivals =
        read ? request_work_arrivals(w->index, read->object, read->time_ns) : (struct work_arrivals){0};
    if (!arrivals.last || arrivals.last->time_ns <= wait->time_ns)
        return false;
    struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_QUEUE_BEHIND);
    s.owner = REQUEST_OWNER_UNKNOWN;
    s.reason = "its goroutine was ready";
    w->is_inferred = true;
    path_walk_add(w, read->time_ns, s);
    w->depth = 0;
    path_walk_go_to(w, read->tid, read->time_ns);
    path_ready_add(w, arrivals.last->time_ns, REQUEST_PART_LOOP_BUSY, true, "its answer waited in the socket");
    path_mark_arrival(w, arrivals.last);
    return true;
}

/* Follows task `other`, which the walk's task waited for, on the current thread. */
static void follow_other(struct path_walk *w, const struct recorder_record *wait, uint64_t other)
{
    w->waiting[w->waiting_count++] = (struct path_waiting_task){w->task, wait, w->floor_ns, w->is_inferred};
    w->floor_ns = wait->time_ns > w->floor_ns ? wait->time_ns : w->floor_ns;
    w->task = other;
    w->depth = 0;
    w->is_inferred = true;
}

/* Whether the task may have waited for `other`, which ran just before it went on: not for one that serves another
 * request. */
static bool can_follow_other(const struct path_walk *w, const struct recorder_record *wait, uint64_t other)
{
    return wait->flags == RECORDER_TASK_WAITS_TASK && w->waiting_count < PATH_TASKS_MAX && wait->time_ns < w->t_ns &&
           !task_serves(w->index, w->task_pid, other, w->subjects[0], wait->time_ns, w->t_ns + 1);
}

/* Thread `waker` woke the current thread, which then ran the task. Goes on in the task that `waker` ran then, which may
 * have ended the task's wait. False: no such task is recorded. */
static bool follow_waker(struct path_walk *w, const struct recorder_record *wait, uint32_t waker)
{
    const struct flight_list *thread = flight_index_thread(w->index, waker);
    const uint64_t since_ns = thread ? flight_thread_span(thread, w->t_ns).start_ns : 0;
    const uint64_t from_ns = since_ns > wait->time_ns ? since_ns : wait->time_ns;
    const struct recorder_record *other =
        thread && thread->pid == w->task_pid ? task_other_find(w->index, waker, w->task, from_ns, w->t_ns + 1) : NULL;
    if (!other || !can_follow_other(w, wait, other->object))
        return false;
    follow_other(w, wait, other->object);
    path_walk_go_to(w, waker, w->t_ns);
    return true;
}

/* The task did not wait before: thread `waker`, which woke the current one, ran it then. Or it was created for the
 * request, which `waker` had read. */
static bool follow_giver(struct path_walk *w, uint32_t waker)
{
    if (!task_own_find(w->index, waker, w->task, w->floor_ns, w->t_ns + 1))
        return w->is_handler && path_walk_go_to_own(w, waker, w->t_ns);
    path_walk_go_to(w, waker, w->t_ns);
    return true;
}

static const struct recorder_record *find_wait(const struct path_walk *w)
{
    return task_wait_find(w->index, w->task_pid, w->task, w->floor_ns, w->t_ns);
}

/* The thread, which waited from `left_ns` until w->t_ns, had run the task before: the program's scheduler took the
 * thread away from the task, and gave it back. False: it had run another task, or none is recorded. */
static bool stay_on_thread(struct path_walk *w, uint64_t left_ns)
{
    if (w->depth > 0 || !task_own_find(w->index, (uint32_t)w->thread->key, w->task, w->floor_ns, left_ns + 1))
        return false;
    path_walk_add_unattributed(w, left_ns, "its goroutine waited for the program's scheduler");
    return true;
}

/* When the thread of this record, which runs the task, next slept or ran another task; w->t_ns: not before. */
static uint64_t end_of_run(const struct path_walk *w, const struct recorder_record *run)
{
    const struct flight_list *thread = flight_index_thread(w->index, run->tid),
                             *tasks = flight_index_tasks_of(w->index, run->tid);
    uint64_t end_ns = w->t_ns;
    for (size_t i = (size_t)flight_list_before(tasks, run->time_ns + 1) + 1;
         i < tasks->count && tasks->events[i].record->time_ns < end_ns && flight_index_spend(w->index); i++)
        if (tasks->events[i].record->object != w->task)
            end_ns = tasks->events[i].record->time_ns;
    const uint32_t before = flight_list_before(thread, run->time_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1;
         thread && i < thread->count && thread->events[i].record->time_ns < end_ns && flight_index_spend(w->index); i++)
        if (thread->events[i].role == FLIGHT_OUT && thread->events[i].state == THREAD_BLOCKED)
            end_ns = thread->events[i].record->time_ns;
    return end_ns;
}

bool path_task_go_to_last_run(struct path_walk *w)
{
    const struct recorder_record *run =
        w->depth == 0 ? task_run_find(w->index, w->task_pid, w->task, w->floor_ns, w->t_ns) : NULL;
    struct work_slice slice;
    if (!run || !flight_index_thread(w->index, run->tid) ||
        (path_walk_previous(w, w->t_ns, &slice) && slice.end_ns >= run->time_ns))
        return false;
    const uint64_t end_ns = end_of_run(w, run);
    path_walk_add_unattributed(w, end_ns, "the program schedules its work on threads itself");
    path_walk_go_to(w, run->tid, end_ns);
    return true;
}

/* The activity of the task is not known since the time when another task began to wait for it. */
static bool skip_to_waiting(struct path_walk *w)
{
    if (w->waiting_count == 0)
        return false;
    path_walk_add_unattributed(w, w->floor_ns, "its goroutine waited for another one");
    return true;
}

static void add_explained(struct path_walk *w, const struct recorder_record *wait)
{
    struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_UNATTRIBUTED);
    task_wait_explain(wait, &s);
    path_walk_add(w, wait->time_ns, s);
    w->depth = 0;
}

/* Nothing earlier is recorded of the task, nor of what it waited for. */
static void go_to_last_work(struct path_walk *w)
{
    struct work_slice slice;
    if (path_task_go_to_last_run(w) || skip_to_waiting(w))
        return;
    const bool is_known = path_walk_previous(w, w->t_ns, &slice);
    path_walk_add_unattributed(w, is_known ? slice.end_ns : w->floor_ns,
                               "the program schedules its work on threads itself");
    if (is_known)
        path_walk_go_to(w, slice.tid, slice.end_ns);
}

static bool follow_created(struct path_walk *w, const struct recorder_record *wait);

/* Goes on before this wait, which began at w->t_ns, in the thread that ran the task. If that is not known: before the
 * task's earlier waits, or where it last ran. */
static void go_before_wait(struct path_walk *w, const struct recorder_record *wait)
{
    while (!wait->tid && w->t_ns > w->floor_ns) {
        wait = find_wait(w);
        if (!wait) {
            go_to_last_work(w);
            return;
        }
        if (wait->flags == RECORDER_TASK_WAITS_TASK && (follow_answer(w, wait) || follow_created(w, wait)))
            return;
        add_explained(w, wait);
    }
    if (wait->tid)
        path_walk_go_to(w, wait->tid, wait->time_ns);
}

static void add_wait(struct path_walk *w, const struct recorder_record *wait)
{
    add_explained(w, wait);
    go_before_wait(w, wait);
}

/* The task waited for one that it had created, which waited itself meanwhile. False: no such task is known. */
static bool follow_created(struct path_walk *w, const struct recorder_record *wait)
{
    const struct recorder_record *its_wait = w->waiting_count < PATH_TASKS_MAX && wait->time_ns < w->t_ns
                                                 ? task_created_wait_find(w->index, w->task_pid, w->task, wait, w->t_ns)
                                                 : NULL;
    if (!its_wait)
        return false;
    follow_other(w, wait, its_wait->object);
    add_wait(w, its_wait);
    return true;
}

bool path_task_follow(struct path_walk *w, uint64_t left_ns, uint32_t waker)
{
    const struct recorder_record *wait = find_wait(w);
    if (!wait)
        return stay_on_thread(w, left_ns) || (waker && follow_giver(w, waker)) || skip_to_waiting(w);
    if (wait->flags == RECORDER_TASK_WAITS_TASK &&
        (follow_answer(w, wait) || follow_created(w, wait) || (waker && follow_waker(w, wait, waker))))
        return true;
    add_wait(w, wait);
    return true;
}

bool path_task_leave(struct path_walk *w, uint64_t from_ns)
{
    const uint32_t tid = (uint32_t)w->thread->key;
    const struct recorder_record *own = w->depth == 0 ? task_own_find(w->index, tid, w->task, from_ns, w->t_ns) : NULL;
    if (own) { /* it may have waited before that */
        path_walk_add(w, own->time_ns, path_walk_segment(w->thread, REQUEST_PART_CPU));
        return true;
    }
    const struct recorder_record *wait = w->depth == 0 ? find_wait(w) : NULL;
    if (w->depth > 0 || (!wait && w->waiting_count == 0))
        return false;
    if (wait && wait->time_ns > from_ns)
        from_ns = wait->time_ns;
    const struct recorder_record *other = task_other_find(w->index, tid, w->task, from_ns, w->t_ns);
    if (!other)
        return false;
    struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_CPU);
    s.is_inferred = true;
    path_walk_add(w, other->time_ns, s);
    if (!wait)
        return skip_to_waiting(w);
    if (wait->flags == RECORDER_TASK_WAITS_TASK && (follow_answer(w, wait) || follow_created(w, wait)))
        return true;
    if (can_follow_other(w, wait, other->object))
        follow_other(w, wait, other->object);
    else
        add_wait(w, wait);
    return true;
}

void path_task_return(struct path_walk *w)
{
    const struct path_waiting_task *waiting = &w->waiting[--w->waiting_count];
    w->task = waiting->task;
    w->floor_ns = waiting->floor_ns;
    w->is_inferred = waiting->was_inferred;
    w->depth = 0;
    w->t_ns = waiting->wait->time_ns < w->t_ns ? waiting->wait->time_ns : w->t_ns;
    go_before_wait(w, waiting->wait);
}
