/* See kernel_stack.h. */
#include "resolve/kernel/kernel_stack.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <string.h>

/* Above the scheduler's, of a stack that was taken in one of its tracepoints. */
#define PROBE_FRAMES_MAX 12

size_t kernel_stack_probe_frames(const struct frame *frames, size_t count)
{
    static const char *const starts[] = {"__traceiter_", "__bpf_trace_", "bpf_trace_run", "bpf_trampoline"};
    size_t n = 0;
    bool is_called = false; /* by the tracepoint: a program's own frames may have others between them */
    for (size_t i = 0; i < count && i < PROBE_FRAMES_MAX; i++) {
        bool is_probe = frames[i].kind == FRAME_BPF;
        for (size_t j = 0; j < array_size(starts) && !is_probe; j++)
            is_called |= is_probe = strncmp(frames[i].function, starts[j], strlen(starts[j])) == 0;
        if (is_called && !is_probe)
            break;
        if (is_probe)
            n = i + 1;
    }
    return n;
}

/* "__pi_" is how kernels that can be moved call the same place. There are several kinds, by what they protect from. */
bool kernel_stack_is_retpoline(const struct frame *frame)
{
    static const char indirect[] = "__x86_indirect_";
    const char *name = strncmp(frame->function, "__pi_", 5) == 0 ? frame->function + 5 : frame->function;
    return frame->kind == FRAME_KERNEL && strncmp(name, indirect, strlen(indirect)) == 0 && strstr(name, "thunk_");
}

/* Where the kernel's unwinder goes on from a retpoline, there are more frames: of a system call at least its caller,
 * the calls' dispatcher and the entry. One above it is what the probe found (sample_retpoline_caller). */
const char *kernel_stack_cut(const struct frame *frames, size_t count)
{
    const bool is_cut = count > 0 && (kernel_stack_is_retpoline(&frames[count - 1]) ||
                                      (count == 2 && kernel_stack_is_retpoline(&frames[0])));
    return is_cut ? "no kernel unwinding rules" : NULL;
}
