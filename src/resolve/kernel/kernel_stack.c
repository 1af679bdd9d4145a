/* Classification of kernel frames; see kernel_stack.h. */
#include "resolve/kernel/kernel_stack.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <string.h>

/* maximum number of probe frames above the scheduler's, in a stack captured at one of its tracepoints */
#define PROBE_FRAMES_MAX 12

size_t kernel_stack_probe_frames(const struct frame *frames, size_t count)
{
    static const char *const starts[] = {"__traceiter_", "__bpf_trace_", "bpf_trace_run", "bpf_trampoline"};
    size_t n = 0;
    bool is_called =
        false; /* the tracepoint's call was seen; before it, other frames may lie between a BPF program's */
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

/* "__pi_" is the prefix of position-independent aliases. There are several kinds of thunks, for different attacks.
 */
bool kernel_stack_is_retpoline(const struct frame *frame)
{
    static const char indirect[] = "__x86_indirect_";
    const char *name = strncmp(frame->function, "__pi_", 5) == 0 ? frame->function + 5 : frame->function;
    return frame->kind == FRAME_KERNEL && strncmp(name, indirect, strlen(indirect)) == 0 && strstr(name, "thunk_");
}

/* The kernel's unwinder stops at a retpoline without rules. A complete stack has further frames: for a system call at
 * least the caller, the dispatcher and the entry. The probe adds one caller above it (sample_retpoline_caller). */
const char *kernel_stack_cut(const struct frame *frames, size_t count)
{
    const bool is_cut = count > 0 && (kernel_stack_is_retpoline(&frames[count - 1]) ||
                                      (count == 2 && kernel_stack_is_retpoline(&frames[0])));
    return is_cut ? "no kernel unwinding rules" : NULL;
}
