/* Names and completeness of a kernel stack; see kernel_stack.h. */
#include "resolve/kernel/kernel_stack.h"

#include "base/cleanup.h"
#include "resolve/kernel/kernel.h"

#include <string.h>

/* maximum number of probe frames above the scheduler's, in a stack captured at one of its tracepoints */
#define PROBE_FRAMES_MAX 12

/* A stack captured at a tracepoint begins with the frames of the probe itself. Returns their number. Another BPF
 * program, which an interrupt hit, may follow below; it is not counted. */
static size_t count_probe_frames(const struct frame *frames, size_t count)
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

/* Whether the frame is a retpoline thunk, through which the kernel makes indirect calls. "__pi_" is the prefix of
 * position-independent aliases. There are several kinds of thunks, for different attacks. */
static bool is_retpoline(const struct frame *frame)
{
    static const char indirect[] = "__x86_indirect_";
    const char *name = strncmp(frame->function, "__pi_", 5) == 0 ? frame->function + 5 : frame->function;
    return frame->kind == FRAME_KERNEL && strncmp(name, indirect, strlen(indirect)) == 0 && strstr(name, "thunk_");
}

/* Before a retpoline returns, it replaces its own return address with the jump target, which the unwinder takes for a
 * caller. The target is the start of a function; a return address never is. Returns the number of remaining frames. */
static size_t drop_retpoline_target(struct kernel_symbols *k, struct frame *frames, size_t count)
{
    struct frame at;
    if (count < 2 || !is_retpoline(&frames[0]))
        return count;
    kernel_symbols_find(k, frames[1].address, &at);
    if (strcmp(at.function, frames[1].function) == 0)
        return count;
    memmove(&frames[1], &frames[2], (count - 2) * sizeof(*frames));
    return count - 1;
}

/* Why the stack is incomplete; NULL: it is complete. The kernel's unwinder stops at a retpoline without rules. A
 * complete stack has further frames: for a system call at least the caller, the dispatcher and the entry. The probe
 * adds one caller above it (sample_retpoline_caller). */
static const char *find_cut(const struct frame *frames, size_t count)
{
    const bool is_cut = count > 0 && (is_retpoline(&frames[count - 1]) || (count == 2 && is_retpoline(&frames[0])));
    return is_cut ? "no kernel unwinding rules" : NULL;
}

static bool is_captured_by_probe(const struct stack_record *record)
{
    const unsigned kind = record->h.kind;
    return kind == RECORD_OFF_CPU_STACK || kind == RECORD_OFF_CPU_WAKER || kind == RECORD_WAIT_STACK;
}

size_t kernel_stack_name(struct kernel_symbols *k, const struct stack_record *record, struct frame *ret,
                         bool *ret_is_whole)
{
    const uint64_t *addresses = (const uint64_t *)record->data;
    size_t count = record->kernel_frames;
    for (size_t i = 0; i < count; i++) {
        kernel_symbols_find(k, i == 0 ? addresses[i] : addresses[i] - 1, &ret[i]);
        ret[i].address = addresses[i];
    }
    if (is_captured_by_probe(record)) {
        const size_t probe = count_probe_frames(ret, count);
        count -= probe;
        memmove(ret, ret + probe, count * sizeof(*ret));
    }
    count = drop_retpoline_target(k, ret, count);
    const char *cut = record->flags & STACK_RECORD_KERNEL_TRUNCATED ? "kernel stack too deep" : find_cut(ret, count);
    if (cut)
        ret[count++] = frame_of_text(FRAME_TRUNCATED, cut);
    *ret_is_whole = !cut;
    return count;
}

bool kernel_stack_is_in_exec(const struct frame *frames, size_t count)
{
    static const char *const functions[] = {"begin_new_exec", "load_elf_binary", "bprm_execve", "load_script",
                                            "load_misc_binary"};
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; n < array_size(functions); n++)
            if (frames[i].kind == FRAME_KERNEL && strncmp(frames[i].function, functions[n], strlen(functions[n])) == 0)
                return true;
    return false;
}
