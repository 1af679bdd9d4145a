/* Elementary steps of a walk; see path_walk.h. */
#include "diagnose/path/path_walk.h"

#include "diagnose/path/path_socket.h"
#include "diagnose/path/task_wait.h"

#define HOPS_MAX 64 /* without going back in time */

uint64_t path_walk_subject(const struct path_walk *w)
{
    return w->subjects[w->depth];
}

void path_walk_stop(struct path_walk *w, const char *reason)
{
    w->end_reason = reason;
}

/* Returns the socket of the call, by the request's own process, that the current thread works for; 0: none, or not
 * known. */
static uint64_t first_call(const struct path_walk *w)
{
    uint64_t call = 0;
    for (unsigned depth = 1; depth <= w->depth && !call; depth++)
        call = w->calls[depth];
    return call;
}

void path_walk_add(struct path_walk *w, uint64_t start_ns, struct path_segment segment)
{
    segment.start_ns = start_ns > w->floor_ns ? start_ns : w->floor_ns;
    segment.is_inferred |= w->is_inferred;
    segment.call = first_call(w);
    const uint64_t asked = segment.call ?: segment.kind == REQUEST_PART_DOWNSTREAM ? segment.socket : 0;
    segment.asks = asked ? path_socket_call(w->index, asked, w->out->begin_ns, w->t_ns) : 0;
    if (segment.socket) {
        uint64_t last_ns = segment.start_ns;
        segment.retransmissions =
            path_socket_retransmissions(w->index, segment.socket, segment.start_ns, w->t_ns, &last_ns);
        segment.retransmitted_ns = last_ns - segment.start_ns;
    }
    path_segments_add(w->out, &segment);
    w->t_ns = segment.start_ns < w->t_ns ? segment.start_ns : w->t_ns;
}

struct path_segment path_walk_segment(const struct flight_list *thread, enum request_part_kind kind)
{
    return (struct path_segment){.kind = kind,
                                 .tid = (uint32_t)thread->key,
                                 .pid = thread->pid,
                                 .owner = REQUEST_OWNER_THIS,
                                 .syscall = RECORDER_NO_SYSCALL,
                                 .reason = ""};
}

void path_walk_add_unattributed(struct path_walk *w, uint64_t start_ns, const char *reason)
{
    struct path_segment s = path_walk_segment(w->thread, REQUEST_PART_UNATTRIBUTED);
    s.owner = REQUEST_OWNER_UNKNOWN;
    s.reason = reason;
    path_walk_add(w, start_ns, s);
}

void path_walk_go_to(struct path_walk *w, uint32_t tid, uint64_t t_ns)
{
    const struct flight_list *thread = flight_index_thread(w->index, tid);
    if (!thread) {
        path_walk_stop(w, "a thread without records");
        return;
    }
    if (++w->hops > HOPS_MAX)
        path_walk_stop(w, "threads that wake each other without end");
    w->thread = thread;
    if ((w->finished || w->handed || w->waiting_count) && t_ns < w->floor_ns)
        t_ns = w->floor_ns;
    w->t_ns = t_ns < w->t_ns ? t_ns : w->t_ns;
}

void path_walk_go_to_sender(struct path_walk *w, uint32_t tid, uint64_t t_ns)
{
    const struct recorder_record *task = NULL;
    if (w->schedules_itself && w->depth == 0)
        task = task_place_find(w->index, w->task_pid, w->task, tid, w->out->begin_ns, t_ns);
    if (!task || !task->tid || task->tid == tid) {
        path_walk_go_to(w, tid, t_ns);
        return;
    }
    w->is_inferred = true;
    if (task->flags != RECORDER_TASK_RUNS && task->time_ns < t_ns)
        path_walk_add_unattributed(w, task->time_ns, "its goroutine waited for another one");
    path_walk_go_to(w, task->tid, t_ns);
}

void path_walk_go_to_peer(struct path_walk *w, uint32_t tid, uint64_t t_ns, uint64_t subject)
{
    if (w->depth + 1 == PATH_PEERS_MAX) {
        path_walk_stop(w, "too many threads and processes one behind the other");
        return;
    }
    w->subjects[++w->depth] = subject;
    w->calls[w->depth] = 0;
    path_walk_go_to(w, tid, t_ns);
}

void path_walk_set_call(struct path_walk *w, uint64_t socket)
{
    w->calls[w->depth] = socket;
}

bool path_walk_go_to_own(struct path_walk *w, uint32_t tid, uint64_t t_ns)
{
    for (unsigned depth = w->depth + 1; depth-- > 0;)
        if (w->subjects[depth] && request_work_is_for(w->index, tid, w->subjects[depth], w->out->begin_ns, t_ns)) {
            w->depth = depth;
            path_walk_go_to(w, tid, t_ns);
            return true;
        }
    if (!request_hands_find(w->hands, tid, t_ns))
        return false;
    w->is_inferred |= request_hands_is_shared(w->hands, tid, t_ns) || (w->depth == 0 && w->is_unpaired);
    path_walk_go_to_peer(w, tid, t_ns, 0);
    return true;
}

bool path_walk_is_own(const struct path_walk *w, uint32_t tid, uint64_t t_ns)
{
    for (unsigned depth = 0; depth <= w->depth; depth++) {
        const struct flight_list *socket = flight_index_socket(w->index, w->subjects[depth]);
        if (socket && socket->is_read && request_work_is_for(w->index, tid, w->subjects[depth], w->out->begin_ns, t_ns))
            return true;
    }
    return request_hands_find(w->hands, tid, t_ns) != NULL;
}

bool path_walk_is_subject(const struct path_walk *w, uint64_t socket)
{
    for (unsigned depth = 0; socket && depth <= w->depth; depth++)
        if (w->subjects[depth] == socket)
            return true;
    return false;
}

bool path_walk_is_for_other(const struct path_walk *w, uint64_t socket)
{
    return socket && !path_walk_is_subject(w, socket);
}

void path_walk_return_to(struct path_walk *w, uint64_t socket)
{
    while (w->depth > 0 && w->subjects[w->depth] != socket)
        w->depth--;
}

bool path_walk_previous(struct path_walk *w, uint64_t t_ns, struct work_slice *ret)
{
    for (unsigned depth = w->depth + 1; depth-- > 0;) {
        if (w->subjects[depth] && request_work_previous(w->index, w->subjects[depth], w->out->begin_ns, t_ns, ret)) {
            w->depth = depth;
            return true;
        }
    }
    return false;
}
