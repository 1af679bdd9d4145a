/* An index of a window of the flight recorder: the activity and the state of each thread at any moment, and the events
 * of each socket. Pure: reads only the window. */
#pragma once

#include "base/cleanup.h"
#include "model/flight_window.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum thread_state { THREAD_UNKNOWN, THREAD_RUNNING, THREAD_RUNNABLE, THREAD_BLOCKED, THREAD_STATES };

/* What a record is to the thread or socket under which it is listed. */
enum flight_role {
    FLIGHT_IN,       /* the thread gets a CPU */
    FLIGHT_OUT,      /* it leaves the CPU */
    FLIGHT_WOKEN,    /* it is woken */
    FLIGHT_WAKES,    /* it wakes another, itself and not an interrupt on its CPU */
    FLIGHT_SENDS,    /* on a socket */
    FLIGHT_RECEIVES, /* from a socket */
    FLIGHT_PRODUCES, /* bytes arrive at a socket while it is current */
    FLIGHT_ENDS,
    FLIGHT_RETRANSMITS, /* on a socket */
    FLIGHT_TASK,        /* RECORDER_TASK, in lists of their own */
};

struct flight_event {
    const struct recorder_record *record;
    enum flight_role role : 8;
    enum thread_state state : 8; /* of the thread after it; unused for sockets */
    uint32_t operation;          /* index in the list of the last send or receive up to this one; of a task: of the last
                                    record of a reply to a request that it sends; FLIGHT_NONE */
    union {
        struct {            /* of a thread */
            uint32_t since; /* index of the event that began this state */
            uint32_t woken; /* runnable: its FLIGHT_WOKEN; FLIGHT_NONE: preempted, or it began runnable */
        };
        struct {           /* of a socket: indices of events up to this one; FLIGHT_NONE */
            uint32_t send; /* the last send */
            uint32_t read; /* the last receive of bytes */
        };
    };
};

#define FLIGHT_NONE UINT32_MAX

/* The events of one thread or one socket, by time. */
struct flight_list {
    uint64_t key; /* tid, or cookie */
    const struct flight_event *events;
    size_t count;
    uint32_t *hint;                /* where the last search ended, as the next is mostly for a moment close to it */
    uint32_t number;               /* below flight_index_thread_count, for a thread */
    uint32_t pid;                  /* of a thread, from its switches and wake-ups; 0: unknown */
    enum thread_state first_state; /* of a thread, before its first event */
    bool is_marking;               /* a thread: its replies to requests are marked as such */
    bool is_served;                /* a socket: requests are served on it */
    bool is_read;                  /* a socket: something is received from it */
    bool has_arrivals;             /* a socket: arrivals of bytes are recorded */
};

struct flight_index;
struct held_locks;

/* Without what is of control frames (control_frames.h). `window` is borrowed until flight_index_free. -ENOMEM. */
int flight_index_new(const struct flight_window *window, struct flight_index **ret);
void flight_index_free(struct flight_index *index);
DEFINE_FREEP(flight_index)

/* The window as it is indexed. */
const struct flight_window *flight_index_window(const struct flight_index *index);
const struct held_locks *flight_index_held_locks(const struct flight_index *index);
/* Whether arrivals at sockets are recorded: Linux 6.3 and later. */
bool flight_index_has_arrivals(const struct flight_index *index);
/* Returns the index of the window's first record at `t_ns` or later; the record count if there is no such record. */
size_t flight_window_since(const struct flight_window *window, uint64_t t_ns);
/* NULL: there is no record of it. */
const struct flight_list *flight_index_thread(const struct flight_index *index, uint32_t tid);
const struct flight_list *flight_index_socket(const struct flight_index *index, uint64_t cookie);
/* Return the records of a task of process `pid`, and the records of any task that thread `tid` ran; NULL if there are
 * no records. */
const struct flight_list *flight_index_task(const struct flight_index *index, uint32_t pid, uint64_t id);
const struct flight_list *flight_index_tasks_of(const struct flight_index *index, uint32_t tid);
/* Whether a thread of process `pid` let an event loop know by write() of a finished job (RECORDER_BY_WRITE); also true
 * if there are too many such processes. */
bool flight_index_has_jobs_by_write(const struct flight_index *index, uint32_t pid);
/* The socket of a record of the window that is about one; NULL: it has no cookie. */
const struct flight_list *flight_record_socket(const struct flight_index *index, const struct recorder_record *record);
size_t flight_index_thread_count(const struct flight_index *index);
const struct flight_list *flight_index_thread_at(const struct flight_index *index, size_t number);

/* Searches in long lists call flight_index_spend for each event that they examine. From its first false on, the window
 * is too large to be searched further: the search ends as if nothing had been found. Bounds the search time of every
 * request. Each request begins with flight_index_start_searches. */
void flight_index_start_searches(const struct flight_index *index);
bool flight_index_spend(const struct flight_index *index);
bool flight_index_is_spent(const struct flight_index *index);

/* The index of the last event before `t`; FLIGHT_NONE: none, as in a list that is NULL. */
uint32_t flight_list_before(const struct flight_list *list, uint64_t t_ns);

/* What a thread did until `t`. */
struct thread_span {
    enum thread_state state;
    uint64_t start_ns;                   /* of the state; 0: before the window */
    const struct recorder_record *began; /* the record that began it; NULL: before the window */
    const struct recorder_record *left;  /* runnable and blocked: the thread's switch that ended its running; NULL */
    const struct recorder_record *woken; /* runnable: its wake-up; NULL: it was preempted, or before the window */
};

/* The state of the thread just before `t`. */
struct thread_span flight_thread_span(const struct flight_list *thread, uint64_t t_ns);

/* Returns the wake-up that ended the thread's wait just before `t_ns`; NULL if it is not recorded. */
const struct recorder_record *flight_thread_wake_up(const struct flight_list *thread, uint64_t t_ns);

/* False: they are of two processes, whose futex words cannot be compared. Unknown processes count as the same. */
bool flight_threads_share_process(const struct flight_list *a, const struct flight_list *b);

/* Whether the futex word belongs to a lock: its holders are recorded, or the thread both waited for it and woke others
 * by it; see futex_words_are_lock. */
bool flight_thread_is_locking(const struct flight_index *index, uint32_t tid, uint64_t word);
/* Only the former. */
bool flight_thread_is_held_lock(const struct flight_index *index, uint32_t tid, uint64_t word);

/* The last send or receive before `t`, and the one before event `i`; FLIGHT_NONE: none. */
uint32_t flight_operation_before(const struct flight_list *list, uint64_t t_ns);
uint32_t flight_previous_operation(const struct flight_list *list, uint32_t i);
