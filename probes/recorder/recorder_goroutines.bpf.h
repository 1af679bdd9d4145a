/* The youngest goroutines of a Go program that the recorder has seen. Whenever a thread that has run goroutines goes to
 * sleep, they are examined, and those that have begun to wait since are recorded; without a thread if they were not
 * seen before. Go uses the `g` of a goroutine that has ended for one that it creates, the last one that ended first: so
 * new goroutines are found, too, although no thread was seen to run them.
 *
 * Several CPUs write to the same entries at the same time. An entry that is of two goroutines then fits neither. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/context/context_tables.bpf.h"
#include "probes/recorder/recorder_put_task.bpf.h"

#define GO_WAITING 4      /* the runtime's _Gwaiting */
#define GO_DEAD    6      /* its _Gdead: ended */
#define GO_SCANNED 0x1000 /* its _Gscan: a bit beside the status */

/* Go's src/runtime/runtime2.go, struct g, from atomicstatus: the same in Go 1.18 to 1.26. */
struct go_state {
    __u32 status, stack_lock;
    __u64 id;
    __u64 next, waits_since;
    __u8 reason;
    __u8 padding[7];
};

/* The same, from parentGoid: the same since Go 1.21. */
struct go_creation {
    __u64 creator;   /* the id of the goroutine that created this one */
    __u64 statement; /* the address of its go statement */
};

static __always_inline bool goroutine_read(void *to, __u32 size, __u64 address)
{
    return bpf_probe_read_user(to, size, (const void *)address) == 0;
}

static __always_inline bool goroutine_waits(const struct go_state *state)
{
    return (state->status & ~GO_SCANNED) == GO_WAITING;
}

/* enum recorder_task_state of a goroutine that waits for this reason. */
static __always_inline __u8 goroutine_state(const struct go_labels_layout *l, __u32 reason)
{
    __u64 at = reason;
    asm volatile(""
                 : "+r"(at)); /* Linux 5.10 forgets the bound of a value that the compiler reads from the stack again */
    return at < GO_WAITS_MAX ? l->waits[at] : RECORDER_TASK_WAITS;
}

/* Records that a goroutine is in this state, with the one that created it and where, if that is known. `tid`: as
 * record_task_of. */
static __always_inline void record_goroutine_state(const struct recorder_place *place, const struct go_labels_layout *l,
                                                   __u32 tid, __u64 address, __u64 id, __u8 state, __u64 now_ns)
{
    struct go_creation made = {};
    const bool is_known = l->g_creator && goroutine_read(&made, sizeof(made), address + l->g_creator) && made.creator;
    record_task_of(place, tid, id, state, is_known ? recorder_creator(made.creator) : 0,
                   is_known ? recorder_site(made.statement) : RECORDER_NO_SYSCALL, now_ns);
}

static const struct recorder_goroutines no_goroutines = {};

/* Notes that a goroutine of thread `tid` (0: not known) of the current process waits for this reason, or
 * RECORDER_NO_REASON. Returns 1 if the same was noted before. */
__noinline int note_goroutine(__u32 tid, __u64 address, __u64 id, __u32 reason)
{
    const __u32 pid = bpf_get_current_pid_tgid() >> 32;
    struct recorder_goroutines *seen;
    __u64 least = ~0ULL;
    __u32 place = 0;
    if (!has_tasks)
        return 0;
    seen = bpf_map_lookup_elem(&recorder_goroutines, &pid);
    if (!seen) {
        bpf_map_update_elem(&recorder_goroutines, &pid, &no_goroutines, BPF_NOEXIST);
        seen = bpf_map_lookup_elem(&recorder_goroutines, &pid);
    }
    if (!seen)
        return 0;
    for (__u32 i = 0; i < RECORDER_GOROUTINES; i++) {
        const struct recorder_goroutine *g = &seen->at[i];
        if (g->address == address) {
            place = i;
            least = 0;
            break;
        }
        if (g->id < least) {
            place = i;
            least = g->id;
        }
    }
    if (least > id || place >= RECORDER_GOROUTINES)
        return 0;
    struct recorder_goroutine *g = &seen->at[place];
    const bool was_noted = g->address == address && g->id == id && g->reason == reason;
    *g = (struct recorder_goroutine){.address = address, .id = id, .reason = reason, .tid = tid};
    return was_noted;
}

/* The goroutine that had ended before another one, and comes after it in the runtime's list of free ones: it may have
 * run without being seen, and is used next but one. */
static __always_inline void note_free_goroutine(const struct go_labels_layout *l, __u64 address)
{
    __u64 id;
    if (address && goroutine_read(&id, 8, address + l->g_status + __builtin_offsetof(struct go_state, id)))
        note_goroutine(0, address, id, RECORDER_ENDED);
}

/* Records the waits that have begun since they were noted. */
__noinline int record_noted_goroutines(__u64 now_ns)
{
    const __u32 pid = bpf_get_current_pid_tgid() >> 32;
    if (!has_tasks) /* first: without a recorder, there is no map of places */
        return 0;
    const struct recorder_place place = recorder_place();
    if (!place.cpu)
        return 0;
    const struct go_labels_layout *l = bpf_map_lookup_elem(&go_labels, &pid);
    struct recorder_goroutines *seen = bpf_map_lookup_elem(&recorder_goroutines, &pid);
    if (!l || !l->g_status || !seen)
        return 0;
    for (__u32 i = 0; i < RECORDER_GOROUTINES; i++) {
        struct recorder_goroutine *g = &seen->at[i];
        struct go_state state;
        if (!g->address || !goroutine_read(&state, sizeof(state), g->address + l->g_status))
            continue;
        const bool is_same = g->id == state.id;
        const __u32 reason = goroutine_waits(&state)   ? state.reason
                             : state.status == GO_DEAD ? RECORDER_ENDED
                                                       : RECORDER_NO_REASON;
        if (reason == RECORDER_NO_REASON || (is_same && g->reason == reason))
            continue;
        g->tid = is_same && g->reason == RECORDER_NO_REASON ? g->tid : 0; /* it may have run elsewhere in between */
        g->id = state.id;
        g->reason = reason;
        if (reason == RECORDER_ENDED)
            note_free_goroutine(l, state.next);
        else
            record_goroutine_state(&place, l, g->tid, g->address, state.id, goroutine_state(l, reason), now_ns);
    }
    return 0;
}
