/* The state of a walk along a critical path, and its elementary steps: adding a segment, going on in another thread.
 * Private to critical_path.c and path_marks.c. */
#pragma once

#include "diagnose/flight/flight_index.h"
#include "diagnose/path/path_segments.h"
#include "diagnose/path/request_work.h"

#define PATH_PEERS_MAX 16
#define PATH_TASKS_MAX 8

/* A task that waited for another task. The walk follows the latter. */
struct path_waiting_task {
    uint64_t task;
    const struct recorder_record *wait;
    uint64_t floor_ns; /* of the walk, before; and whether it was inferred */
    bool was_inferred;
};

/* The last result of path_turn.c. */
struct path_turns {
    uint64_t task, request;           /* a task, and the request that it works for; 0: not known */
    const struct flight_list *thread; /* an event loop; NULL: none yet */
    uint32_t begin, last;             /* its events of a round, as far as they have been searched */
    bool has_earlier;                 /* of that round */
};

struct path_walk {
    const struct flight_index *index;
    const struct request_hands *hands; /* of the request itself */
    struct path_segments *out;
    const struct flight_list *thread;
    uint64_t t_ns;
    uint64_t floor_ns; /* the walk goes no further back: the request's begin, or the time since when the records are
                          complete; while `finished` or `handed` is set, its time; while tasks are in `waiting`, when
                          the last of them began to wait */
    uint64_t first_ns; /* floor_ns without all that */
    uint64_t subjects[PATH_PEERS_MAX]; /* sockets that the threads along the path answer on; 0: no socket. [0]: the
                                          request's own */
    uint64_t calls[PATH_PEERS_MAX];    /* the socket that carried the answer of that thread; 0: none, or not known */
    unsigned depth;                    /* of the current thread's */
    unsigned hops;
    bool schedules_itself; /* the process that serves the request, `task_pid`, has a scheduler of its own */
    uint32_t task_pid;
    bool is_handler;   /* `task` was created for the request, by the one that reads its connection */
    bool is_task_own;  /* `task` replies to no other request meanwhile: it is not a context that sends all replies */
    uint32_t loop_tid; /* if so, the thread that ran `task` when it replied: its event loop; 0: not known */
    uint64_t task; /* the request's task there, that which replied if the program does not schedule itself; 0: not known
                    */
    bool is_one_of; /* the jobs were for this request, or for others at the same time */
    struct path_waiting_task waiting[PATH_TASKS_MAX]; /* for `task`, if the program schedules itself: the first one is
                                                         the request's own */
    unsigned waiting_count;
    const struct recorder_record *finished; /* another thread finished the job that this task waited for: the walk goes
                                               on in that thread at this record, whatever the task's own thread did
                                               after it; NULL: none */
    const struct recorder_record *job;      /* the last such job that the walk went to; NULL: it went to none */
    const struct recorder_record *handed;   /* set while the walk is in a job of the task: the record of the task's own
                                               thread where the task last ran before the job; there the walk goes on.
                                               NULL: none */
    bool is_unpaired; /* no job was finished for the task itself, but jobs were finished for other tasks: the jobs that
                         threads did for the request are known by rules only */
    bool is_paired;   /* the walk has gone to `job`: the current thread finished it, or is one that this thread waited
                         for */
    struct path_turns turn;
    const char *end_reason; /* why the walk stops early; NULL: it goes on */
    bool is_inferred;       /* since the last hop: later conclusions rest on it */
};

/* The socket that the current thread answers on; 0: no socket. */
uint64_t path_walk_subject(const struct path_walk *w);
/* Ends the walk: unexplained time is unattributed, for this reason. */
void path_walk_stop(struct path_walk *w, const char *reason);

/* Returns a segment without times for work of this thread for this request. */
struct path_segment path_walk_segment(const struct flight_list *thread, enum request_part_kind kind);
/* Adds `segment` as [start, w->t), and goes back to its start. */
void path_walk_add(struct path_walk *w, uint64_t start_ns, struct path_segment segment);
void path_walk_add_unattributed(struct path_walk *w, uint64_t start_ns, const char *reason);

/* Goes on in thread `tid` as it was at `t`. */
void path_walk_go_to(struct path_walk *w, uint32_t tid, uint64_t t_ns);
/* Goes on in thread `tid`, which sent something for the request at `t_ns`. If this is the request's own process, and it
 * schedules its tasks itself, goes on where the request's task was then: another task may have sent it. */
void path_walk_go_to_sender(struct path_walk *w, uint32_t tid, uint64_t t_ns);
/* Goes on in a thread that works for this request and answers on `subject`; 0: on no socket. */
void path_walk_go_to_peer(struct path_walk *w, uint32_t tid, uint64_t t_ns, uint64_t subject);
/* The answer of the current thread came in on `socket`. */
void path_walk_set_call(struct path_walk *w, uint64_t socket);
/* Goes on in thread `tid`, if that worked for this request at `t`. */
bool path_walk_go_to_own(struct path_walk *w, uint32_t tid, uint64_t t_ns);
/* Whether thread `tid` worked for this request at `t`: it had been given it, or had read it. */
bool path_walk_is_own(const struct path_walk *w, uint32_t tid, uint64_t t_ns);
/* Whether a thread along the path answers on `socket`, and whether `socket` is another request's. Both are false for 0,
 * an unknown socket. */
bool path_walk_is_subject(const struct path_walk *w, uint64_t socket);
bool path_walk_is_for_other(const struct path_walk *w, uint64_t socket);
/* `socket` is a subject: from now on, the current thread is the one that answers on it. */
void path_walk_return_to(struct path_walk *w, uint64_t socket);
/* Finds the last work for the request itself before `t_ns`. False: none. */
bool path_walk_previous(struct path_walk *w, uint64_t t_ns, struct work_slice *ret);
