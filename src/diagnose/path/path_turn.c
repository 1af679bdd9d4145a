/* See path_turn.h. */
#include "diagnose/path/path_turn.h"

#include "diagnose/path/path_wait.h"
#include "diagnose/path/task_request.h"
#include "diagnose/path/task_wait.h"

#define LONG_NS      1000000 /* the turns of several tasks, where no record shows one of them, take at least as long */
#define REQUESTS_MAX 64      /* that the thread worked for between the read of a request and its reply */

/* The request's task can be distinguished from others. Programs that schedule themselves have rules of their own. */
static bool has_tasks(const struct path_walk *w)
{
    return (w->depth == 0 || w->thread->key == w->loop_tid) && w->task && w->is_task_own && !w->schedules_itself &&
           w->thread->pid == w->task_pid;
}

/* The event of the current thread's list that is its last read of the request before `t_ns`; FLIGHT_NONE: it did not
 * read it. */
static uint32_t find_read(const struct path_walk *w, uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(w->index, w->subjects[0]);
    const uint32_t before = flight_list_before(socket, t_ns);
    const uint32_t read = before == FLIGHT_NONE ? FLIGHT_NONE : socket->events[before].read;
    const struct recorder_record *r = read == FLIGHT_NONE ? NULL : socket->events[read].record;
    if (!r || r->tid != (uint32_t)w->thread->key)
        return FLIGHT_NONE;
    uint32_t i = flight_operation_before(w->thread, r->time_ns + 1);
    while (i != FLIGHT_NONE && w->thread->events[i].record != r && flight_index_spend(w->index))
        i = flight_previous_operation(w->thread, i);
    return i;
}

/* Whether the thread received something by this record's time. What then runs is the event loop, not the task. */
static bool is_at_read(const struct path_walk *w, const struct recorder_record *task)
{
    const uint32_t i = flight_operation_before(w->thread, task->time_ns + 1);
    const struct flight_event *e = i == FLIGHT_NONE ? NULL : &w->thread->events[i];
    return e && e->record->time_ns == task->time_ns && e->role == FLIGHT_RECEIVES;
}

/* The last record in [from, to) of a task that the thread runs; NULL: none. */
static const struct recorder_record *last_run(const struct path_walk *w, uint64_t from_ns, uint64_t to_ns)
{
    const struct flight_list *tasks = flight_index_tasks_of(w->index, (uint32_t)w->thread->key);
    for (uint32_t i = flight_list_before(tasks, to_ns); i != FLIGHT_NONE && flight_index_spend(w->index); i--) {
        const struct recorder_record *r = tasks->events[i].record;
        if (r->time_ns < from_ns)
            break;
        if (r->flags == RECORDER_TASK_RUNS && !is_at_read(w, r))
            return r;
    }
    return NULL;
}

static bool is_sleep_for_events(const struct flight_event *e)
{
    return e->role == FLIGHT_OUT && e->state == THREAD_BLOCKED && path_wait_is_for_events(e->record);
}

/* Returns the event of the last request that the thread read before event `i` in the same round; FLIGHT_NONE: none.
 * Tasks of requests that were read earlier run earlier. */
static uint32_t previous_in_round(const struct path_walk *w, uint32_t i)
{
    while (i-- > 0 && flight_index_spend(w->index)) {
        const struct flight_event *e = &w->thread->events[i];
        if (e->role == FLIGHT_SENDS || is_sleep_for_events(e))
            break;
        if (request_work_mark(w->index, e, w->subjects[0]) == WORK_FOREIGN)
            return i;
    }
    return FLIGHT_NONE;
}

/* Whether a task of the request of socket `cookie` runs before this request's, by the order of their reads. */
static bool is_earlier(const struct path_walk *w, uint32_t read, uint64_t cookie)
{
    uint32_t i = read;
    while ((i = previous_in_round(w, i)) != FLIGHT_NONE)
        if (w->thread->events[i].record->object == cookie)
            return true;
    return false;
}

/* Returns the request of the task that the thread ran at this record: the task's own request, or, if the task opened a
 * connection, the request that the connection was opened for. 0: not known. */
static uint64_t find_request(const struct path_walk *w, const struct recorder_record *task)
{
    const uint64_t request = task_request_of_run(w->index, task->tid, task->time_ns);
    const uint32_t i = flight_operation_before(w->thread, task->time_ns + 1);
    const struct recorder_record *sent = i == FLIGHT_NONE ? NULL : w->thread->events[i].record;
    if (request || !sent || sent->time_ns != task->time_ns)
        return request;
    return task_request_of_sends(w->index, sent->object, sent->time_ns);
}

/* As find_request, but a task that leaves its CPU often is looked up once: between two tasks with the same id, a reply
 * is sent. */
static uint64_t request_of(struct path_walk *w, const struct recorder_record *task)
{
    if (task->object == w->task)
        return w->subjects[0];
    const bool is_off_cpu = recorder_low(task->value) == RECORDER_OFF_CPU;
    if (!is_off_cpu || w->turn.task != task->object)
        w->turn.request = find_request(w, task);
    w->turn.task = is_off_cpu ? task->object : 0;
    return w->turn.request;
}

/* The requests, at most REQUESTS_MAX, that the thread is known to have worked for in [from, to). */
static size_t find_requests(struct path_walk *w, uint64_t from_ns, uint64_t to_ns, uint64_t requests[REQUESTS_MAX])
{
    size_t count = 0;
    for (const struct recorder_record *r; count < REQUESTS_MAX && (r = last_run(w, from_ns, to_ns));
         to_ns = r->time_ns) {
        const uint64_t request = request_of(w, r);
        if (request && (!count || requests[count - 1] != request))
            requests[count++] = request;
    }
    return count;
}

static bool is_among(const uint64_t *requests, size_t count, uint64_t request)
{
    while (count > 0 && requests[count - 1] != request)
        count--;
    return count > 0;
}

/* Finds the round that the thread was in just before `t_ns`: since it read this request at event `read`, or since it
 * last slept. Returns false if that is the round of w->turn. */
static bool find_round(struct path_walk *w, uint32_t read, uint64_t t_ns)
{
    const uint32_t last = flight_list_before(w->thread, t_ns);
    if (w->turn.thread == w->thread && w->turn.begin <= last && last <= w->turn.last)
        return false;
    uint32_t i = last;
    while (i > read && !is_sleep_for_events(&w->thread->events[i]) && flight_index_spend(w->index))
        i--;
    w->turn.thread = w->thread;
    w->turn.begin = i;
    w->turn.last = last;
    return true;
}

/* Whether the thread read an earlier request without any record of work for it by `t_ns`. Earlier: before this one or,
 * if the thread has slept since, before `t_ns`. The walk asks this for each turn, going back in time: only the first
 * result for a round is searched for. */
static bool has_earlier(struct path_walk *w, uint32_t read, uint64_t t_ns)
{
    uint64_t requests[REQUESTS_MAX];
    size_t count = 0;
    if (!find_round(w, read, t_ns))
        return w->turn.has_earlier;
    w->turn.has_earlier = false;
    for (uint32_t i = w->turn.begin > read ? w->turn.last + 1 : read;
         !w->turn.has_earlier && (i = previous_in_round(w, i)) != FLIGHT_NONE;) {
        const struct recorder_record *r = w->thread->events[i].record;
        if (!count)
            count = find_requests(w, r->time_ns, t_ns, requests);
        w->turn.has_earlier = !is_among(requests, count, r->object);
    }
    return w->turn.has_earlier;
}

/* A record at the end of the turn shows its task. Between two records, the task of the later one ran, unless the
 * earlier one shows this request's task: that went on. Before the first record after the read, the tasks ran in the
 * order of the reads. */
struct path_turn path_turn_find(struct path_walk *w, uint64_t floor_ns, uint64_t t_ns)
{
    struct path_turn turn = {.owner = REQUEST_OWNER_THIS, .from_ns = floor_ns};
    if (!has_tasks(w))
        return turn;
    const uint32_t read = find_read(w, t_ns);
    const uint64_t read_ns = read == FLIGHT_NONE ? w->floor_ns : w->thread->events[read].record->time_ns;
    const struct recorder_record *now = last_run(w, t_ns, t_ns + 1), *before = last_run(w, read_ns + 1, t_ns);
    const uint64_t request = now ? request_of(w, now) : 0;
    if (before && before->time_ns > floor_ns)
        turn.from_ns = before->time_ns;
    if (before && before->object == w->task)
        return turn;
    if (path_walk_is_for_other(w, request))
        turn.owner =
            before || read == FLIGHT_NONE || is_earlier(w, read, request) ? REQUEST_OWNER_OTHER : REQUEST_OWNER_THIS;
    else if (read == FLIGHT_NONE)
        return turn; /* another thread read it: how many requests the event loop was given is not known */
    else if (now && !request ? has_earlier(w, read, t_ns)
                             : !before && t_ns - read_ns >= LONG_NS && has_earlier(w, read, t_ns))
        turn.owner = REQUEST_OWNER_SEVERAL;
    return turn;
}

/* If the thread leaves its CPU at this record, returns when it got a CPU again; otherwise the record's time. */
static uint64_t back_on_cpu_ns(const struct path_walk *w, const struct recorder_record *run)
{
    const struct flight_list *thread = flight_index_thread(w->index, run->tid);
    const uint32_t before = flight_list_before(thread, run->time_ns + 1);
    if (recorder_low(run->value) != RECORDER_OFF_CPU)
        return run->time_ns;
    for (size_t i = before == FLIGHT_NONE ? 0 : before; thread && i < thread->count; i++) {
        const struct flight_event *e = &thread->events[i];
        if (e->role == FLIGHT_IN && e->record->time_ns > run->time_ns)
            return e->record->time_ns < w->t_ns ? e->record->time_ns : w->t_ns;
    }
    return run->time_ns;
}

void path_turn_extend(const struct path_walk *w, struct work_slice *slice)
{
    const struct recorder_record *run =
        has_tasks(w) ? task_run_find(w->index, w->task_pid, w->task, slice->end_ns, w->t_ns) : NULL;
    if (run)
        *slice = (struct work_slice){run->tid, run->time_ns, back_on_cpu_ns(w, run)};
}
