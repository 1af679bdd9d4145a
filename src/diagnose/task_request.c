/* Finds the reply that a task sends next, or sent last; see task_request.h. */
#include "diagnose/task_request.h"

#include "diagnose/request_work.h"

/* The record by which a thread sends to a socket on which requests are served, at the time of this record of its task.
 * NULL: it does not. */
static const struct recorder_record *reply_at(const struct flight_index *index, const struct recorder_record *task)
{
    const struct flight_list *thread = flight_index_thread(index, task->tid);
    const uint32_t i = flight_operation_before(thread, task->time_ns + 1);
    const struct flight_event *e = i == FLIGHT_NONE ? NULL : &thread->events[i];
    return e && e->record->time_ns == task->time_ns && e->role == FLIGHT_SENDS &&
                   request_work_is_served(index, e->record)
               ? e->record
               : NULL;
}

/* When the request that is answered on socket `cookie` at `t_ns` was read last; 0: not recorded. */
static uint64_t last_read_ns(const struct flight_index *index, uint64_t cookie, uint64_t t_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    for (uint32_t i = flight_operation_before(socket, t_ns); i != FLIGHT_NONE && flight_index_spend(index);
         i = flight_previous_operation(socket, i))
        if (socket->events[i].role == FLIGHT_RECEIVES && recorder_low(socket->events[i].record->value))
            return socket->events[i].record->time_ns;
    return 0;
}

/* The next reply of the task at `t_ns` or later, or its last one before; NULL: none. */
static const struct recorder_record *next_reply(const struct flight_index *index, const struct flight_list *task,
                                                uint64_t t_ns)
{
    const uint32_t before = flight_list_before(task, t_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; i < task->count && flight_index_spend(index); i++) {
        const struct recorder_record *r = task->events[i].record;
        const struct recorder_record *reply = r->flags == RECORDER_TASK_RUNS ? reply_at(index, r) : NULL;
        if (reply)
            return reply;
    }
    return NULL;
}

static const struct recorder_record *last_reply(const struct flight_index *index, const struct flight_list *task,
                                                uint64_t t_ns)
{
    for (uint32_t i = flight_list_before(task, t_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        const struct recorder_record *r = task->events[i].record;
        const struct recorder_record *reply = r->flags == RECORDER_TASK_RUNS ? reply_at(index, r) : NULL;
        if (reply)
            return reply;
    }
    return NULL;
}

/* The id of a task is that of an earlier one that has ended. So a reply after `t_ns` is that of the task at `t_ns` only
 * if its request had been read by then. One by which another request was answered since is no task's: it is the
 * context in which an event loop sends all replies. */
static uint64_t request_of(const struct flight_index *index, uint32_t pid, uint64_t id, uint64_t t_ns)
{
    const struct flight_list *task = flight_index_task(index, pid, id);
    const struct recorder_record *next = next_reply(index, task, t_ns);
    const uint64_t read_ns = next ? last_read_ns(index, next->object, next->time_ns) : 0;
    if (!read_ns || read_ns > t_ns)
        return 0;
    const struct recorder_record *last = last_reply(index, task, t_ns);
    if (last && last->object != next->object && last->time_ns > read_ns)
        return 0;
    return next->object;
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

/* The thread says that it has finished a job some time before the message, too, and says nothing of it at the message
 * if the event loop has taken the job back by then. */
uint64_t task_request_of_job(const struct flight_index *index, uint32_t tid, uint64_t t_ns)
{
    const struct flight_list *tasks = flight_index_tasks_of(index, tid);
    const uint32_t i = flight_list_before(tasks, t_ns + 1);
    const struct recorder_record *r = i == FLIGHT_NONE ? NULL : tasks->events[i].record;
    return r && r->flags == RECORDER_TASK_FINISHED ? request_of(index, recorder_high(r->value), r->object, r->time_ns)
                                                   : 0;
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
