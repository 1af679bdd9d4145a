/* Where in the server's own code a thread waited: the user stack of a wait that was long enough to matter. Part of
 * request.bpf.c.
 *
 * User memory can be read only in the thread's own context. Kernels that have a tracepoint where a thread comes back
 * from the scheduler (sched_exit_tp, 6.16 and later) let it be walked there: how long the wait was is known, the stack
 * is what it was, and waits that were short pay nothing. On others it is walked when the thread leaves the CPU, before
 * anybody knows how long the wait will be. Walks have a share of each CPU's time, and no more. */
#pragma once

#include "probes/request/request_turns.bpf.h"

#define UNWIND_MAX_FRAMES    REQUEST_USER_FRAMES
#define UNWIND_FRAMES_BEFORE 0
#define UNWIND_COPY_BYTES    REQUEST_STACK_COPY_BYTES
#include "probes/unwind/unwind_sample.bpf.h"

#define STACK_KEPT_NS   10000000000ULL /* not used by anybody for so long: its place may be given to another */
#define WALK_SHARE      128            /* of each CPU's time: 1/128 */
#define WALK_SAVED_NS   8000000        /* what may be saved up */
#define WALK_MAX_NS     50000 /* more was spent elsewhere: the CPU is a virtual one, or there was an interrupt */
#define COPIES_A_WINDOW 64    /* and CPU */

struct request_walk_share walk_shares[RUN_TIMER_CPUS]; /* CPUs beyond share */

static __always_inline struct request_walk_share *walk_share_of(__u64 now)
{
    struct request_walk_share *share = &walk_shares[bpf_get_smp_processor_id() & (RUN_TIMER_CPUS - 1)];
    __u64 left_ns = share->left_ns + (now - share->filled_ns) / WALK_SHARE;
    share->left_ns = left_ns < WALK_SAVED_NS ? left_ns : WALK_SAVED_NS;
    share->filled_ns = now;
    return share;
}

static __always_inline __u64 stack_name(struct unwind_scratch *scratch, int end)
{
    __u64 name = REQUEST_STACK_NAME_START(end);
    for (__u32 i = 0; i < REQUEST_USER_FRAMES; i++) {
        if (i >= scratch->walk.frames)
            break;
        name = REQUEST_STACK_NAME_STEP(name, scratch->data[i]);
    }
    return REQUEST_STACK_NAME_END(name);
}

/* Keeps the stack that was just walked. False: all places that it may have are in use. */
static __always_inline bool stack_keep(struct unwind_scratch *scratch, __u64 name, int end, __u64 now)
{
    struct request_stack *oldest = NULL;
    for (__u32 way = 0; way < STACKS_WAYS; way++) {
        __u32 index = stack_place(name, way);
        struct request_stack *s = bpf_map_lookup_elem(&request_stacks, &index);
        if (!s)
            return false;
        if (s->name == name) {
            s->used_ns = now;
            return true;
        }
        if (!oldest || s->used_ns < oldest->used_ns)
            oldest = s;
    }
    if (!oldest || (oldest->name && now - oldest->used_ns < STACK_KEPT_NS))
        return false;
    __u64 frames = at_most(scratch->walk.frames, REQUEST_USER_FRAMES);
    oldest->name = 0;
    oldest->used_ns = now;
    oldest->frames = frames;
    oldest->end = end;
    bpf_probe_read_kernel(oldest->address, frames * 8, scratch->data);
    oldest->name = name;
    return true;
}

/* Sends a copy of the stack, because rows are missing: user space walks it, and sees to it that the next one is not
 * missing them. */
static __always_inline bool stack_send(struct unwind_scratch *scratch, struct request_walk_share *share,
                                       struct task_struct *task, int end, __u64 now)
{
    struct stack_record *s = stack_record_of(scratch);
    __u64 id = bpf_get_current_pid_tgid(), size;
    if (share->window != now >> WINDOW_SHIFT) {
        share->window = now >> WINDOW_SHIFT;
        share->copies = 0;
    }
    if (share->copies >= COPIES_A_WINDOW || bpf_ringbuf_query(&request_ring, BPF_RB_AVAIL_DATA) > ring_bytes / 2)
        return false;
    share->copies++;
    copy_stack(task);
    __builtin_memset(s, 0, sizeof(*s));
    s->h.kind = RECORD_REQUEST_STACK;
    s->h.time_ns = now;
    s->h.pid = id >> 32;
    s->h.tid = id;
    s->cgroup_id = cgroup_id(cgroup_of(task));
    bpf_get_current_comm(s->comm, sizeof(s->comm));
    sample_set_walk(scratch, end);
    size = sample_finish(scratch);
    UNWIND_SAME_REGISTER(size);
    if (!s->stack_bytes || size > sizeof(*s) + sizeof(scratch->data))
        return false;
    s->h.size_bytes = size;
    return bpf_ringbuf_output(&request_ring, s, size, BPF_RB_FORCE_WAKEUP) ==
           0; /* the sooner it is read, the fewer have to be copied */
}

/* Walks the user stack of the thread at hand, if more than `spare_ns` are left of the CPU's share: its name, and how
 * that is to be read (user_end of struct request_wait). */
static __always_inline __u8 stack_walk(__u64 now, __u64 spare_ns, __u64 *ret_name)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct user_registers *registers;
    *ret_name = 0;
    if (!scratch || (BPF_CORE_READ(task, flags) & PF_KTHREAD) || !BPF_CORE_READ(task, mm))
        return REQUEST_STACK_NONE;
    struct request_walk_share *share = walk_share_of(now);
    if (share->left_ns <= spare_ns)
        return REQUEST_STACK_SHED;
    unwind_walk_clear(&scratch->walk);
    registers = (struct user_registers *)scratch->data; /* until the walk writes there */
    if (!kernel_registers(task, registers) || !user_mode(registers) || !walk_begin(&scratch->walk, registers))
        return REQUEST_STACK_NONE;
    scratch->walk.pid = bpf_get_current_pid_tgid() >> 32;
    scratch->walk.interrupted = 1;
    int end = unwind_user();
    __u8 result = end;
    if (end_is_resumable(end) && stack_send(scratch, share, task, end, now)) {
        *ret_name = now;
        result = REQUEST_STACK_APART;
    } else {
        __u64 name = stack_name(scratch, end);
        if (stack_keep(scratch, name, end, now))
            *ret_name = name;
        else
            result = REQUEST_STACK_LOST;
    }
    __u64 took_ns = bpf_ktime_get_ns() - now;
    if (took_ns > WALK_MAX_NS)
        took_ns = WALK_MAX_NS;
    share->left_ns -= took_ns < share->left_ns ? took_ns : share->left_ns;
    return result;
}

/* `t` is back from a wait that was long enough. */
static __always_inline void stack_take(struct request_thread *t, __u32 tid, __u64 now)
{
    __u64 name;
    __u32 place = t->stack_place - 1;
    t->stack_place = 0;
    struct request_connection *c = current_of(t, tid);
    if (!c)
        return;
    __u8 end = stack_walk(now, 0, &name);
    set_stack(c, place, name, end);
}

/* `t` stopped in a wait that may become a long one. When much of the share is spent, the waits that were long the last
 * time go first. */
static __always_inline void stack_take_early(struct request_thread *t, __u64 now)
{
    t->stack_end = stack_walk(now, t->long_call == t->call_number + 1 ? 0 : WALK_SAVED_NS / 2, &t->stack);
}
