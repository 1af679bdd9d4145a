/* Calls of NVIDIA's driver library, libcuda, by process: the tables of cuda.bpf.c. Shared by the BPF program and
 * src/sources/cuda. */
#pragma once

#if !defined(__bpf__)
#include <linux/types.h>
#endif

/* Kinds of calls: each has programs of its own, and several functions of the library. */
enum cuda_call {
    CUDA_CALL_LAUNCH,
    CUDA_CALL_GRAPH_LAUNCH,
    CUDA_CALL_COPY,
    CUDA_CALL_ALLOCATION,  /* of device memory */
    CUDA_CALL_SYNCHRONIZE, /* waits for the GPU; its return is attached to as well */
    CUDA_CALLS,
};

#define CUDA_MAX_PROCESSES 256  /* calls of further ones are counted together, as lost */
#define CUDA_MAX_THREADS   2048 /* that wait at the same time */

struct cuda_process_name {
    __u32 pid;
    __u32 reserved;
    __u64 start_ns; /* of its main thread: two processes may have the same PID, one after the other */
};

struct cuda_process {
    __u64 calls[CUDA_CALLS]; /* that have begun */
    __u64 synchronize_ns;    /* of the calls that have ended */
};

/* A thread in a CUDA_CALL_SYNCHRONIZE. */
struct cuda_wait {
    struct cuda_process_name process;
    __u64 stack; /* its stack pointer at the function's entry */
    __u64 since_ns;
};

enum cuda_timer { CUDA_TIMER_CALL, CUDA_TIMERS };
