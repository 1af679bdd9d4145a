/* Searches the window's RECORDER_TASK; see task_wait.h. */
#include "diagnose/task_wait.h"

/* Both records were written at once. */
uint64_t task_of_operation(const struct flight_index *index, const struct recorder_record *operation)
{
    const struct flight_window *window = flight_index_window(index);
    for (size_t i = flight_window_since(window, operation->time_ns);
         i < window->count && window->records[i].time_ns == operation->time_ns; i++) {
        const struct recorder_record *r = &window->records[i];
        if (r->kind == RECORDER_TASK && r->flags == RECORDER_TASK_RUNS && r->tid == operation->tid)
            return r->object;
    }
    return 0;
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

const struct recorder_record *task_finished_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                                 uint64_t after_ns, uint64_t before_ns)
{
    const struct flight_window *window = flight_index_window(index);
    for (size_t i = flight_window_since(window, before_ns); i-- > 0 && flight_index_spend(index);) {
        const struct recorder_record *r = &window->records[i];
        if (r->time_ns <= after_ns)
            break;
        if (r->kind == RECORDER_TASK && r->flags == RECORDER_TASK_FINISHED && (!id || r->object == id) &&
            recorder_high(r->value) == pid)
            return r;
    }
    return NULL;
}

const struct recorder_record *task_wait_find(const struct flight_index *index, uint32_t pid, uint64_t id,
                                             uint64_t begin_ns, uint64_t t_ns)
{
    const struct flight_window *window = flight_index_window(index);
    if (!id)
        return NULL;
    for (size_t i = flight_window_since(window, t_ns); i-- > 0 && flight_index_spend(index);) {
        const struct recorder_record *r = &window->records[i];
        if (r->time_ns < begin_ns)
            break;
        if (r->kind == RECORDER_TASK && r->object == id && recorder_high(r->value) == pid)
            return r->flags == RECORDER_TASK_RUNS ? NULL : r;
    }
    return NULL;
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
    default:
        segment->kind = REQUEST_PART_UNATTRIBUTED;
        segment->owner = REQUEST_OWNER_UNKNOWN;
        segment->reason = wait->flags == RECORDER_TASK_WAITS_IO     ? "its goroutine waited for a socket or the like"
                          : wait->flags == RECORDER_TASK_WAITS_TASK ? "its goroutine waited for another one"
                                                                    : "its goroutine waited";
    }
}
