/* Jobs of pool threads; see path_job.h. */
#include "diagnose/path/path_job.h"

#include "diagnose/path/path_holder.h"
#include "diagnose/path/path_marks.h"
#include "diagnose/path/path_wait.h"
#include "diagnose/path/task_request.h"
#include "diagnose/path/task_wait.h"

#define MESSAGE_NS 1000000 /* from the record of a finished job until its message arrives, at most */

/* When the request was last read from before `t`. An earlier task may have had the same id. */
static uint64_t last_read_ns(const struct path_walk *w)
{
    const struct flight_list *socket = flight_index_socket(w->index, w->subjects[0]);
    for (uint32_t i = flight_operation_before(socket, w->t_ns); i != FLIGHT_NONE && flight_index_spend(w->index);
         i = flight_previous_operation(socket, i))
        if (socket->events[i].role == FLIGHT_RECEIVES)
            return socket->events[i].record->time_ns;
    return 0;
}

/* Whether a job was finished without a message on a socket. */
static bool is_by_write(const struct recorder_record *finished)
{
    return finished->kind == RECORDER_SWITCH || recorder_low(finished->value) == RECORDER_BY_WRITE;
}

/* Returns the record that ended the last job of the request's task, in (from_ns, w->t_ns). Where the ends of jobs are
 * not always recorded, this may be the switch record of the thread when it waited for work again. */
static const struct recorder_record *find_last_job(const struct path_walk *w, uint64_t from_ns)
{
    const struct recorder_record *finished = task_finished_find(w->index, w->task_pid, w->task, from_ns, w->t_ns);
    const struct recorder_record *done = flight_index_has_jobs_by_write(w->index, w->task_pid)
                                             ? task_done_find(w->index, w->task_pid, w->task, from_ns, w->t_ns)
                                             : NULL;
    return done && (!finished || done->time_ns > finished->time_ns) ? done : finished;
}

void path_job_find(struct path_walk *w)
{
    const uint64_t read_ns = last_read_ns(w), from_ns = read_ns > w->first_ns ? read_ns : w->first_ns;
    if (!w->task)
        return;
    w->finished = find_last_job(w, from_ns);
    w->is_unpaired = !w->finished && task_is_any_finished(w->index, w->task_pid, from_ns, w->t_ns);
    if (w->is_unpaired && w->out->count == 0)
        w->is_one_of = task_are_several_unknown(w->index, w->task_pid, w->subjects[0], from_ns, w->t_ns);
    if (w->finished) {
        w->handed = NULL;
        w->floor_ns = w->finished->time_ns;
    }
}

/* Returns the socket that carried the thread's message of this record; 0: not known, or an eventfd or a pipe did. */
static uint64_t socket_of_message(const struct flight_list *thread, const struct recorder_record *message)
{
    const uint32_t before = flight_list_before(thread, message->time_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; thread && i < thread->count; i++)
        if (thread->events[i].role == FLIGHT_SENDS)
            return thread->events[i].record->flags & RECORDER_UNIX ? thread->events[i].record->object : 0;
    return 0;
}

/* False if the event loop slept for events after the job's message: it had handled the message by then, and the request
 * waited for another event. */
bool path_job_is_ready(const struct path_walk *w, uint64_t t_ns)
{
    if (!w->finished)
        return false;
    for (uint32_t i = flight_list_before(w->thread, t_ns + 1); i != FLIGHT_NONE && flight_index_spend(w->index); i--) {
        const struct flight_event *e = &w->thread->events[i];
        if (e->record->time_ns <= w->finished->time_ns + MESSAGE_NS)
            break;
        if (e->role == FLIGHT_OUT && e->state == THREAD_BLOCKED && path_wait_is_for_events(e->record))
            return false;
    }
    return true;
}

/* The thread finished the job, and until `from_ns` nothing shows when it had begun that: it may have had another one
 * before. */
static void add_unbounded_job(struct path_walk *w, uint32_t tid, uint64_t from_ns)
{
    const struct holder_walk worker = {.index = w->index,
                                       .out = w->out,
                                       .waiter = (uint32_t)w->thread->key,
                                       .kind = REQUEST_PART_UNATTRIBUTED,
                                       .owner = REQUEST_OWNER_UNKNOWN,
                                       .is_inferred = true};
    path_holder_add(&worker, tid, from_ns, w->t_ns);
    w->t_ns = from_ns;
}

void path_job_go_to_finished(struct path_walk *w)
{
    const struct recorder_record *finished = w->finished;
    w->finished = NULL;
    w->job = finished;
    w->handed = task_run_find(w->index, w->task_pid, w->task, w->first_ns, finished->time_ns);
    w->floor_ns = w->handed ? w->handed->time_ns : w->first_ns;
    w->depth = 0;
    w->is_paired = true;
    w->is_inferred = false;
    if (is_by_write(finished) && !task_job_is_bounded(w->index, finished, (uint32_t)w->thread->key, w->floor_ns)) {
        add_unbounded_job(w, finished->tid, w->floor_ns);
        return;
    }
    path_walk_go_to_peer(
        w, finished->tid, finished->time_ns,
        is_by_write(finished) ? 0 : socket_of_message(flight_index_thread(w->index, finished->tid), finished));
}

void path_job_go_to_handed(struct path_walk *w)
{
    const struct recorder_record *handed = w->handed;
    w->handed = NULL;
    w->floor_ns = w->first_ns;
    w->depth = 0;
    w->is_inferred = false;
    path_walk_go_to(w, handed->tid, handed->time_ns);
}

bool path_job_leave(struct path_walk *w, const struct flight_event *mark, uint64_t floor_ns)
{
    const uint64_t answer_ns = w->t_ns;
    if (!w->job || w->job->tid != (uint32_t)w->thread->key || w->t_ns > w->job->time_ns)
        return false;
    const bool has_no_message = is_by_write(w->job);
    const bool is_message = mark && mark->role == FLIGHT_SENDS && mark->record->object == path_walk_subject(w);
    if (!has_no_message && !is_message)
        return false;
    const struct recorder_record *earlier =
        task_job_before(w->index, w->job->tid, floor_ns, has_no_message ? w->t_ns : mark->record->time_ns + 1);
    const bool is_own = earlier && task_job_is_for(w->index, earlier, w->task);
    if (!earlier || (!is_own && !has_no_message))
        return false;
    path_walk_add(w, has_no_message ? earlier->time_ns : mark->record->time_ns,
                  path_walk_segment(w->thread, REQUEST_PART_CPU));
    if (!is_own)
        path_mark_foreign(w, true, answer_ns);
    return true;
}

/* When the event loop, woken at `end_ns`, next sent something for the request. */
static uint64_t next_send_ns(const struct path_walk *w, uint64_t end_ns)
{
    const struct flight_list *socket = flight_index_socket(w->index, path_walk_subject(w));
    const uint32_t before = flight_list_before(socket, end_ns);
    for (size_t i = before == FLIGHT_NONE ? 0 : before + 1; socket && i < socket->count; i++)
        if (socket->events[i].role == FLIGHT_SENDS)
            return socket->events[i].record->time_ns;
    return w->t_ns;
}

bool path_job_may_end_wait(const struct path_walk *w, const struct recorder_record *left, uint64_t end_ns)
{
    return path_wait_is_for_events(left) &&
           task_may_have_unseen_job(w->index, w->thread, w->out->begin_ns, end_ns, next_send_ns(w, end_ns));
}
