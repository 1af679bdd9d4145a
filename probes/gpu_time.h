/* GPU time by launch stack: the records of `sonde record --gpu`. A program in which libsonde-cuda runs (lib/cuda)
 * fires two probes while a recorder is attached: one at a launch, where cpu.bpf.c takes the stack, and one with a
 * finished record in the program's memory, which cpu.bpf.c copies. What the program writes is untrusted. */
#pragma once

#include "probes/common/record.h"

enum {
    RECORD_GPU_LAUNCH = 192, /* a struct stack_record: the stack of the launch; sample.value is its number */
    RECORD_GPU_SUM = 193,    /* struct gpu_sum */
    RECORD_GPU_WINDOW = 194, /* struct gpu_window */
};

/* The kinds of work on a GPU. */
enum gpu_work {
    GPU_WORK_KERNEL,
    GPU_WORK_NCCL, /* a kernel of NCCL, by its name */
    GPU_WORK_COPY,
    GPU_WORK_SET, /* memset */
    GPU_WORK_COUNT,
};

#define GPU_NAME_MAX 2047 /* bytes of a kernel's name; a longer one is truncated */

/* How often one kernel ran, and how long in all, between two reports of the program. */
struct gpu_sum { /* RECORD_GPU_SUM; name_bytes bytes of the name follow, padded with NULs to a multiple of 8 */
    struct record_header h;
    __u32 launch;  /* the number of its RECORD_GPU_LAUNCH; 0: launches whose stack was not taken */
    __u32 device;  /* CUDA's number of the GPU in this process */
    __u64 count;   /* executions; never 0 */
    __u64 ns;      /* of all executions together */
    __u8 work;     /* enum gpu_work */
    __u8 is_graph; /* part of a CUDA graph: `launch` is that of the graph */
    __u16 name_bytes;
    __u32 reserved;
};
_Static_assert(sizeof(struct gpu_sum) == 56, "record format");

enum gpu_window_state {
    GPU_WINDOW_BEGAN,
    GPU_WINDOW_REFUSED, /* nothing is recorded in this process until the recorder ends: `error` and `reason` */
    GPU_WINDOW_ENDED,   /* all sums have been reported; the counters are final */
    GPU_WINDOW_STATE_COUNT,
};

#define GPU_WINDOW_REASON_BYTES 64

struct gpu_window { /* RECORD_GPU_WINDOW */
    struct record_header h;
    __u32 state;                          /* enum gpu_window_state */
    __s32 error;                          /* of CUPTI; -1: not of CUPTI; 0: none */
    __u64 launches;                       /* calls that start work: kernels, graphs, copies */
    __u64 stacks;                         /* of them, those with a RECORD_GPU_LAUNCH */
    __u64 executions;                     /* in the sums */
    __u64 untimed;                        /* executions without plausible times, or not finished: in no sum */
    __u64 dropped;                        /* executions that CUPTI had no memory for */
    __u64 unnamed;                        /* executions of kernels beyond the limit of names, under one common name */
    char reason[GPU_WINDOW_REASON_BYTES]; /* NUL-terminated; "": none */
};
_Static_assert(sizeof(struct gpu_window) == 144, "record format");

#define GPU_RECORD_MAX_BYTES (sizeof(struct gpu_sum) + GPU_NAME_MAX + 1)
