/* The programs whose tasks and locks the recorder reads (recorder_program.h), and its state of their threads
 * (recorder_goroutine.bpf.h, recorder_python.bpf.h): tables.bpf.c creates the maps, user space fills the first
 * (src/sources/tables/unwind_tables.c), and the flight recorder's programs write the others. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/recorder/recorder_program.h"

#define RECORDER_TASKS_MAX 8192

/* Set before loading: the maps below and `go_labels` exist. Global functions check it, too: kernels before 6.8 check
 * them without their callers. */
const volatile bool has_tasks = false;

/* By process. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, RECORDER_PROGRAMS_MAX);
    __type(key, __u32);
    __type(value, struct recorder_program);
} recorder_programs SEC(".maps");

/* In Go the goroutine that a thread ran last. In Python the thread's own state, 0: it has none, and the number of
 * thread states that there had been when it was searched. */
struct recorder_task {
    __u64 address, id;
    union {
        struct {
            __u32 reason;  /* Go: of the wait that was recorded last, as the runtime numbers it */
            __u32 is_told; /* Go: a wait of it was recorded since it was seen to run */
        };
        __u64 gil_from_ns; /* Python: recorder_gil.bpf.h */
    };
    __u32 searches; /* Python: how often the job of the thread may still be searched for, since it waited for work */
    union {
        __u32 before;       /* Go: low bits of the id of the goroutine that ran before, and whose wait was recorded */
        __u32 gil_switches; /* Python: recorder_gil.bpf.h */
    };
};

/* By thread. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, RECORDER_TASKS_MAX);
    __type(key, __u32);
    __type(value, struct recorder_task);
} recorder_tasks SEC(".maps");

/* None of the runtime's reasons to wait. */
#define RECORDER_NO_REASON 0xff
#define RECORDER_ENDED     0xfe

/* A goroutine, by the address of its `g`. Go uses that of one that has ended for the next one. */
struct recorder_goroutine {
    __u64 address, id;
    __u32 reason; /* of the wait that was recorded last, since it was seen to run; RECORDER_NO_REASON; RECORDER_ENDED */
    __u32 tid;    /* the thread that ran it when it was seen last; 0: not known */
};

#define RECORDER_GOROUTINES 32
struct recorder_goroutines {
    struct recorder_goroutine at[RECORDER_GOROUTINES];
};

/* The youngest goroutines of a Go program that were seen, by process. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 256);
    __type(key, __u32);
    __type(value, struct recorder_goroutines);
} recorder_goroutines SEC(".maps");

struct recorder_python_state {
    __u64 address;
    __u32 pid;
    __u32 reserved;
};

/* The threads that Python's thread states belong to. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, RECORDER_TASKS_MAX);
    __type(key, struct recorder_python_state);
    __type(value, __u32);
} recorder_python_threads SEC(".maps");

/* How long the threads of a Python program have waited for its GIL, in ns, by process; user space takes it out. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, RECORDER_PROGRAMS_MAX);
    __type(key, __u32);
    __type(value, __u64);
} recorder_gil_waits SEC(".maps");
