/* The threads of one process that is suspected of a hang, with their stacks: the signal "gpu" or a command asks, the
 * signal "threads" and the samples of the CPU profile answer. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCESS_THREADS_MAX 64

/* How long an answer may take: a process with incomplete stacks is read again until then. */
#define PROCESS_THREADS_PATIENCE_NS 8000000000ull

struct process_thread {
    uint32_t tid;
    char name[16];
    char state;         /* as in ps; 0: it has ended */
    char function[48];  /* of the kernel, in which it waits; "": it runs, or the kernel does not say */
    uint64_t waited_ns; /* how long it has been off its CPU, at least; 0: it runs, or unknown */
    char call[64];      /* the function of libcuda or of NCCL that it is in; "": none, or its stack is unknown */
    const char *stack;  /* one frame per line, leaf first, at most PROCESS_THREADS_STACK_BYTES; "": unknown */
};
#define PROCESS_THREADS_STACK_BYTES 8192

struct process_threads;

/* The caller frees `*ret`. -ENOMEM. */
int process_threads_new(struct process_threads **ret);
void process_threads_free(struct process_threads *t);
DEFINE_FREEP(process_threads)

/* Asks for the threads of `pid`. Replaces an earlier question and its answer. */
void process_threads_ask(struct process_threads *t, uint32_t pid, uint64_t now_ns);
/* The process that is asked for; 0: none, or it is answered. */
uint32_t process_threads_asked(const struct process_threads *t);
/* Whether the answer is complete, as far as it will come: at the latest PROCESS_THREADS_PATIENCE_NS after the question.
 */
bool process_threads_is_ready(struct process_threads *t, uint64_t now_ns);
/* The answer of the last question, thread `first` (0: none) before the others; valid until the next question.
 * `*ret_omitted`: how many threads have no place. */
const struct process_thread *process_threads_read(struct process_threads *t, uint32_t first, size_t *ret_count,
                                                  size_t *ret_omitted);

/* ---- the answer ---- */

/* The stack of thread `tid` of the process that is asked for. Replaces an earlier one. */
void process_threads_put_stack(struct process_threads *t, uint32_t tid, const struct frame *frames, size_t count);
void process_threads_put_wait(struct process_threads *t, uint32_t tid, uint64_t waited_ns);
/* Whether the stack of this thread is there, or there is no place for it. */
bool process_threads_has_stack(struct process_threads *t, uint32_t tid);
/* All stacks are there. */
void process_threads_complete(struct process_threads *t);
/* Keeps the stack of a CPU sample of the process that is asked for; does nothing with others. */
void process_threads_note_sample(struct process_threads *t, const struct sample *sample);
