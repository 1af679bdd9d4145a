/* A window of the flight recorder, indexed: what each thread did and in which state it was at any moment, and what
 * happened at each socket. Pure: reads only the window. */
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
};

struct flight_event {
    const struct recorder_record *record;
    enum flight_role role;
    enum thread_state state; /* of the thread after it; unused for sockets */
    uint32_t since;          /* index among the thread's events of the one that began this state */
    uint32_t woken;          /* a runnable thread: its FLIGHT_WOKEN; FLIGHT_NONE: preempted, or it began runnable */
};

#define FLIGHT_NONE UINT32_MAX

/* The events of one thread or one socket, by time. */
struct flight_list {
    uint64_t key; /* tid, or cookie */
    const struct flight_event *events;
    size_t count;
    enum thread_state first_state; /* of a thread, before its first event */
    uint32_t pid;                  /* a thread's process, from its records; 0: not known */
};

struct flight_index;

/* `window` is borrowed until flight_index_free. -ENOMEM. */
int flight_index_new(const struct flight_window *window, struct flight_index **ret);
void flight_index_free(struct flight_index *index);
DEFINE_FREEP(flight_index)

const struct flight_window *flight_index_window(const struct flight_index *index);
/* NULL: there is no record of it. */
const struct flight_list *flight_index_thread(const struct flight_index *index, uint32_t tid);
const struct flight_list *flight_index_socket(const struct flight_index *index, uint64_t cookie);

/* The index of the last event before `t`; FLIGHT_NONE: none. */
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

/* Whether the thread both waited for a futex word and woke others by it, or by words close to it: the parts of a
 * condition variable. */
bool flight_thread_is_locking(const struct flight_index *index, uint32_t tid, uint64_t word);
