/* Searches the records of the request's time for new tasks; see task_handler.h. */
#include "diagnose/path/task_handler.h"

#include "diagnose/path/task_wait.h"

/* Tasks that may serve the request: how many, and one of them. */
struct found_tasks {
    unsigned count;
    uint64_t task;
};

static void found_add(struct found_tasks *found, uint64_t task)
{
    found->count++;
    found->task = task;
}

/* Returns the index of the first receive on the socket from event `from` on; the list's length if there are no more. */
static size_t first_receive(const struct flight_list *socket, size_t from)
{
    while (from < socket->count && socket->events[from].role != FLIGHT_RECEIVES)
        from++;
    return from;
}

/* When more was received on the socket after the request that began at `begin_ns`; UINT64_MAX: no more was. */
static uint64_t next_receive_ns(const struct flight_index *index, uint64_t cookie, uint64_t begin_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    const uint32_t before = flight_list_before(socket, begin_ns);
    if (!socket)
        return UINT64_MAX;
    const size_t request = first_receive(socket, before == FLIGHT_NONE ? 0 : before + 1),
                 next = first_receive(socket, request + 1);
    return next < socket->count ? socket->events[next].record->time_ns : UINT64_MAX;
}

/* A record of the task that has its creator; NULL: that is not known. */
static const struct recorder_record *record_of_creation(const struct flight_index *index, uint32_t pid, uint64_t id)
{
    const struct flight_list *task = flight_index_task(index, pid, id);
    for (size_t i = 0; task && i < task->count && flight_index_spend(index); i++)
        if (recorder_low(task->events[i].record->value) & RECORDER_CREATED_BY)
            return task->events[i].record;
    return NULL;
}

/* Whether both tasks were created by the same statement: they do the same work. */
static bool are_alike(const struct recorder_record *a, const struct recorder_record *b)
{
    return a && b && a->syscall != RECORDER_NO_SYSCALL && a->syscall == b->syscall;
}

/* Whether the task of this record was created by the same statement as a task that sent something on the socket: such a
 * task writes. Several may write a reply: those that only fill a buffer do not send. */
static bool is_writer(const struct flight_index *index, const struct recorder_record *task,
                      const struct flight_list *socket)
{
    for (size_t i = 0; socket && i < socket->count && flight_index_spend(index); i++)
        if (socket->events[i].role == FLIGHT_SENDS &&
            are_alike(task, task_record_of_operation(index, socket->events[i].record)))
            return true;
    return false;
}

/* Whether the task of this record, its first one, was seen waiting for I/O by `to_ns`. */
static bool waits_for_io(const struct flight_index *index, const struct recorder_record *first, uint64_t to_ns)
{
    const struct flight_list *task = flight_index_task(index, recorder_high(first->value), first->object);
    for (size_t i = 0; i < task->count && flight_index_spend(index); i++) {
        const struct recorder_record *r = task->events[i].record;
        if (r->time_ns > to_ns)
            break;
        if (r->flags == RECORDER_TASK_WAITS_IO)
            return true;
    }
    return false;
}

/* Whether this is the first record of a task that may serve a request. `reader`, `creator`: of that task. */
static bool is_new_task(const struct flight_index *index, const struct recorder_record *r, uint32_t pid,
                        uint64_t reader, uint32_t creator)
{
    const uint32_t made_by = recorder_low(r->value);
    if (r->kind != RECORDER_TASK || recorder_high(r->value) != pid || !(made_by & RECORDER_CREATED_BY) ||
        (made_by != recorder_creator(reader) && made_by != creator))
        return false;
    const struct flight_list *task = flight_index_task(index, pid, r->object);
    return task && task->events[0].record == r && !task_serves(index, pid, r->object, 0, r->time_ns, UINT64_MAX);
}

uint64_t task_handler_find(const struct flight_index *index, uint32_t pid, uint64_t socket, uint64_t begin_ns,
                           const struct recorder_record *reply)
{
    const struct flight_window *window = flight_index_window(index);
    const uint64_t reader = task_of_request(index, socket, begin_ns),
                   next_ns = next_receive_ns(index, socket, begin_ns);
    if (!reader || reader == task_of_operation(index, reply))
        return 0;
    const struct recorder_record *made = record_of_creation(index, pid, reader);
    const uint32_t creator = made ? recorder_low(made->value) : 0;
    const struct flight_list *connection = flight_index_socket(index, socket);
    struct found_tasks all = {0}, early = {0}, busy = {0};
    for (size_t i = flight_window_since(window, begin_ns);
         i < window->count && window->records[i].time_ns <= reply->time_ns && flight_index_spend(index); i++) {
        const struct recorder_record *r = &window->records[i];
        if (!is_new_task(index, r, pid, reader, creator) || are_alike(r, made) || is_writer(index, r, connection))
            continue;
        found_add(&all, r->object);
        if (r->time_ns < next_ns)
            found_add(&early, r->object);
        if (r->time_ns < next_ns && !waits_for_io(index, r, reply->time_ns))
            found_add(&busy, r->object);
    }
    return early.count == 1 ? early.task : busy.count == 1 ? busy.task : all.count == 1 ? all.task : 0;
}
