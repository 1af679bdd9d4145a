/* The socket of a wait, from the thread's operations around it; see path_socket.h. */
#include "diagnose/path/path_socket.h"

#include "diagnose/path/path_wait.h"

#include <sys/syscall.h>

/* The thread's first operation of this role after `t`, before it next waits: it may be preempted until then. */
static uint64_t next_operation(const struct flight_list *thread, uint64_t t_ns, enum flight_role role)
{
    const uint32_t before = flight_list_before(thread, t_ns + 1);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; i < thread->count; i++) {
        if (thread->events[i].role == role)
            return thread->events[i].record->object;
        if (thread->events[i].role == FLIGHT_OUT && thread->events[i].state == THREAD_BLOCKED)
            break;
    }
    return 0;
}

uint64_t path_socket_of_wait(const struct flight_list *thread, const struct recorder_record *left, uint64_t end_ns)
{
    if (left->syscall == SYS_connect) {
        const uint32_t i = flight_operation_before(thread, left->time_ns);
        const struct flight_event *e = i == FLIGHT_NONE ? NULL : &thread->events[i];
        return e && e->role == FLIGHT_SENDS && recorder_low(e->record->value) == 0 ? e->record->object : 0;
    }
    if (path_wait_is_receive(left->syscall))
        return next_operation(thread, end_ns, FLIGHT_RECEIVES);
    if (path_wait_is_send(left->syscall))
        return next_operation(thread, end_ns, FLIGHT_SENDS);
    return 0;
}

int path_socket_call(const struct flight_index *index, uint64_t cookie, uint64_t from_ns, uint64_t to_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    const uint32_t last = flight_list_before(socket, to_ns);
    uint32_t i = last == FLIGHT_NONE ? FLIGHT_NONE : socket->events[last].send;
    int call = 0;
    while (i != FLIGHT_NONE && flight_index_spend(index)) {
        const struct recorder_record *sent = socket->events[i].record;
        if (sent->time_ns < from_ns)
            break;
        if (sent->syscall != RECORDER_NO_SYSCALL && call && sent->syscall != call)
            return 0;
        call = sent->syscall != RECORDER_NO_SYSCALL ? sent->syscall : call;
        const struct flight_event *before = i ? &socket->events[i - 1] : NULL;
        if (!before || before->send == FLIGHT_NONE || (before->read != FLIGHT_NONE && before->read > before->send))
            break;
        i = before->send;
    }
    return call;
}

uint32_t path_socket_retransmissions(const struct flight_index *index, uint64_t cookie, uint64_t from_ns,
                                     uint64_t to_ns, uint64_t *ret_last_ns)
{
    const struct flight_list *socket = flight_index_socket(index, cookie);
    uint32_t count = 0;
    for (uint32_t i = flight_list_before(socket, to_ns); i != FLIGHT_NONE && flight_index_spend(index); i--) {
        if (socket->events[i].record->time_ns < from_ns)
            break;
        if (socket->events[i].role == FLIGHT_RETRANSMITS && count++ == 0)
            *ret_last_ns = socket->events[i].record->time_ns;
    }
    return count;
}
