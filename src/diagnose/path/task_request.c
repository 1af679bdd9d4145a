/* Finds the reply that a task sends next, or sent last; see task_request.h. */
#include "diagnose/path/task_request.h"

/* The send that the task makes at this event of its list; NULL: there is no event. */
static const struct recorder_record *reply_at(const struct flight_index *index, const struct flight_list *task,
                                              uint32_t event)
{
    const struct recorder_record *r = event == FLIGHT_NONE ? NULL : task->events[event].record;
    const struct flight_list *thread = r ? flight_index_thread(index, r->tid) : NULL;
    return r ? thread->events[flight_operation_before(thread, r->time_ns + 1)].record : NULL;
}

/* The first reply that the task sends at `t_ns` or later; FLIGHT_NONE: none. */
static uint32_t next_reply(const struct flight_list *task, uint64_t t_ns)
{
    const uint32_t before = flight_list_before(task, t_ns), first = before == FLIGHT_NONE ? 0 : before + 1;
    uint32_t low = first, high = task ? (uint32_t)task->count : 0; /* it is in [low, high) */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2, reply = task->events[middle].operation;
        if (reply != FLIGHT_NONE && reply >= first)
            high = middle;
        else
            low = middle + 1;
    }
    return task && low < task->count ? low : FLIGHT_NONE;
}

/* When the request that was answered by this send was read. If that is not recorded: when the records begin, as it was
 * read before. */
static uint64_t read_ns(const struct flight_index *index, const struct recorder_record *reply)
{
    const struct flight_list *socket = flight_record_socket(index, reply);
    const uint32_t before = flight_list_before(socket, reply->time_ns),
                   read = before == FLIGHT_NONE ? FLIGHT_NONE : socket->events[before].read;
    return read == FLIGHT_NONE ? flight_index_window(index)->complete_from_ns : socket->events[read].record->time_ns;
}

/* The request that task `id`, as it was at `t_ns`, replies to itself; 0: not known. Ids are used again: a task with the
 * same id that replies after `t_ns` is the task at `t_ns` only if the request had been read by then. If the id has also
 * answered another request since that read, it belongs to no task: it is the context that an event loop uses to send
 * all replies. */
static uint64_t replied_by(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t t_ns)
{
    const struct flight_list *task = flight_index_task(index, pid, id);
    const struct recorder_record *next = reply_at(index, task, next_reply(task, t_ns));
    const uint64_t began_ns = next ? read_ns(index, next) : 0;
    const uint32_t before = flight_list_before(task, t_ns);
    const struct recorder_record *last =
        reply_at(index, task, before == FLIGHT_NONE ? FLIGHT_NONE : task->events[before].operation);
    if (!next || began_ns > t_ns || (last && last->object != next->object && last->time_ns > began_ns))
        return 0;
    return next->object;
}

/* The request of a task that waited for task `id`: by the first job that a thread finished, at `t_ns` or later, for
 * both. 0: not known. */
static uint64_t replied_by_waiting(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t t_ns)
{
    const struct flight_list *task = flight_index_task(index, pid, id);
    const uint32_t before = flight_list_before(task, t_ns);
    const struct recorder_record *job = NULL;
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1;
         !job && task && i < task->count && flight_index_spend(index); i++)
        job = task->events[i].record->flags >= RECORDER_TASK_FINISHED ? task->events[i].record : NULL;
    const struct flight_list *tasks = job ? flight_index_tasks_of(index, job->tid) : NULL;
    uint64_t request = 0;
    for (uint32_t i = job ? flight_list_before(tasks, job->time_ns + 1) : FLIGHT_NONE;
         !request && i != FLIGHT_NONE && tasks->events[i].record->time_ns == job->time_ns; i--)
        if (tasks->events[i].record->flags == job->flags)
            request = replied_by(index, pid, tasks->events[i].record->object, t_ns);
    return request;
}

/* The request that task `id`, as it was at `t_ns`, works for; 0: not known. */
static uint64_t request_of(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t t_ns)
{
    const uint64_t request = replied_by(index, pid, id, t_ns);
    return request ? request : replied_by_waiting(index, pid, id, t_ns);
}

uint64_t task_request_of_run(const struct flight_index *index, uint32_t tid, uint64_t t_ns)
{
    const struct flight_list *tasks = flight_index_tasks_of(index, tid);
    const uint32_t i = flight_list_before(tasks, t_ns + 1);
    const struct recorder_record *r = i == FLIGHT_NONE ? NULL : tasks->events[i].record;
    return r && r->time_ns == t_ns && r->flags == RECORDER_TASK_RUNS
               ? request_of(index, recorder_high(r->value), r->object, t_ns)
               : 0;
}

static bool task_is_off_cpu(const struct recorder_record *task)
{
    return task->flags == RECORDER_TASK_RUNS && recorder_low(task->value) == RECORDER_OFF_CPU;
}

/* The thread says that it has finished a job some time before the message, too, and says nothing of it at the message
 * if the event loop has taken the job back by then. */
const struct recorder_record *task_job_find(const struct flight_index *index, uint32_t tid, uint64_t t_ns)
{
    const struct flight_list *tasks = flight_index_tasks_of(index, tid);
    uint32_t i = flight_list_before(tasks, t_ns + 1);
    while (i != FLIGHT_NONE && task_is_off_cpu(tasks->events[i].record) && flight_index_spend(index))
        i--;
    const struct recorder_record *r = i == FLIGHT_NONE ? NULL : tasks->events[i].record;
    return r && r->flags == RECORDER_TASK_FINISHED ? r : NULL;
}

uint64_t task_request_of_job(const struct flight_index *index, const struct recorder_record *job)
{
    return request_of(index, recorder_high(job->value), job->object, job->time_ns);
}

/* Whether the window's record `i` shows that a thread of process `pid` finished a job, and the task that awaited it:
 * records of the tasks that wait for that one follow at once. */
static bool is_end_of_job(const struct flight_window *window, size_t i, uint32_t pid)
{
    const struct recorder_record *r = &window->records[i], *before = i > 0 ? r - 1 : NULL;
    return r->kind == RECORDER_TASK && r->flags == RECORDER_TASK_FINISHED && recorder_high(r->value) == pid &&
           !(before && before->kind == RECORDER_TASK && before->flags == RECORDER_TASK_FINISHED &&
             before->tid == r->tid && before->time_ns == r->time_ns);
}

bool task_are_several_unknown(const struct flight_index *index, uint32_t pid, uint64_t socket, uint64_t from_ns,
                              uint64_t to_ns)
{
    const struct flight_window *window = flight_index_window(index);
    uint64_t seen = 0; /* a task that may work for the request */
    for (size_t i = flight_window_since(window, from_ns + 1);
         i < window->count && window->records[i].time_ns < to_ns && flight_index_spend(index); i++) {
        const struct recorder_record *r = &window->records[i];
        if (!is_end_of_job(window, i, pid) || r->object == seen)
            continue;
        const uint64_t request = task_request_of_job(index, r);
        if (request && request != socket)
            continue;
        if (seen)
            return true;
        seen = r->object;
    }
    return false;
}

uint64_t task_request_of_question(const struct flight_index *index, uint64_t cookie, uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    uint64_t request = 0;
    for (uint32_t i = flight_operation_before(socket, t_ns); !request && i != FLIGHT_NONE && flight_index_spend(index);
         i = flight_previous_operation(socket, i)) {
        const struct flight_event *e = &socket->events[i];
        if (e->role == FLIGHT_RECEIVES)
            break;
        request = task_request_of_run(index, e->record->tid, e->record->time_ns);
    }
    return request;
}

uint64_t task_request_of_sends(const struct flight_index *index, uint64_t cookie, uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    const uint32_t before = flight_list_before(socket, t_ns);
    uint64_t request = 0;
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1;
         !request && socket && i < socket->count && flight_index_spend(index); i++) {
        const struct flight_event *e = &socket->events[i];
        if (e->role == FLIGHT_RECEIVES)
            break;
        if (e->role == FLIGHT_SENDS)
            request = task_request_of_run(index, e->record->tid, e->record->time_ns);
    }
    return request;
}
