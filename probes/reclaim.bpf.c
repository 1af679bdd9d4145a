/* Counts by cgroup how long threads that allocate memory have to reclaim or compact it first. A thread whose time in
 * one kind adds up to more than the threshold has a record, and shorter sums have records in the flight recorder, for
 * the requests that they delayed.
 *
 * Losses: records that find the ring full; runs that the kernel skips because the program is already running on that
 * CPU. A thread that is evicted from the table while it reclaims is not counted. */
#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "probes/common/cgroup.bpf.h"
#include "probes/common/run_timer.bpf.h"
#include "probes/reclaim.h"
#include "probes/recorder/recorder.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before loading. */
const volatile __u64 threshold_ns = 10000000;
const volatile bool has_recorder = false; /* the flight recorder's maps exist */

volatile __u32 enabled = 0;
__u64 records_lost = 0; /* the ring was full */

struct reclaim_sum {
    __u64 begin_ns; /* of the first one */
    __u64 ns;
};

struct reclaim_thread {
    struct reclaim_thread_kind {
        __u64 start_ns; /* of the run that the thread is in; 0: the thread is in no run of this kind */
        struct reclaim_sum recorder, event;
    } kinds[RECLAIM_KINDS];
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, RECLAIM_MAX_THREADS);
    __type(key, __u32);
    __type(value, struct reclaim_thread);
} threads SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, RECLAIM_MAX_CGROUPS + 1);
    __type(key, __u64);
    __type(value, struct reclaim_cgroup);
} reclaims SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 16384);
} records SEC(".maps");

static const struct reclaim_thread no_thread = {};
static const struct reclaim_cgroup no_cgroup = {};

static __always_inline bool is_kernel_thread(void)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    return BPF_CORE_READ(task, flags) & PF_KTHREAD;
}

static __always_inline void begin(__u32 kind)
{
    __u32 tid = bpf_get_current_pid_tgid();
    if (!enabled)
        return;
    __u64 timer_ns = timer_start(RECLAIM_TIMER_BEGIN);
    struct reclaim_thread *thread = bpf_map_lookup_elem(&threads, &tid);
    if (!thread) {
        bpf_map_update_elem(&threads, &tid, &no_thread, BPF_NOEXIST);
        thread = bpf_map_lookup_elem(&threads, &tid);
    }
    timer_stop(RECLAIM_TIMER_BEGIN, timer_ns);
    if (thread)
        thread->kinds[kind].start_ns = bpf_ktime_get_ns();
}

static __always_inline struct reclaim_cgroup *find_cgroup(__u64 id)
{
    const __u64 other = RECLAIM_OTHER;
    struct reclaim_cgroup *c = bpf_map_lookup_elem(&reclaims, &id);

    if (c)
        return c;
    bpf_map_update_elem(&reclaims, &id, &no_cgroup, BPF_NOEXIST);
    c = bpf_map_lookup_elem(&reclaims, &id);
    return c ? c : bpf_map_lookup_elem(&reclaims, &other);
}

/* Adds what began at `start_ns`. Returns true if the sum has reached `enough_ns`: the caller takes it. */
static __always_inline bool add_up(struct reclaim_sum *sum, __u64 start_ns, __u64 now, __u64 enough_ns)
{
    if (start_ns - sum->begin_ns > RECLAIM_SPREAD * enough_ns) {
        sum->begin_ns = start_ns;
        sum->ns = 0;
    }
    sum->ns += now - start_ns;
    return sum->ns >= enough_ns;
}

static __always_inline void record_for_requests(const struct reclaim_sum *sum, __u32 kind, __u64 cgroup, __u64 now)
{
    const struct recorder_place place = recorder_place();
    if (!place.cpu)
        return;
    const struct recorder_record r = {.time_ns = now,
                                      .kind = RECORDER_RECLAIM,
                                      .flags = kind,
                                      .syscall = RECORDER_NO_SYSCALL,
                                      .tid = bpf_get_current_pid_tgid(),
                                      .object = cgroup,
                                      .value = sum->ns};
    recorder_put_object(&place, &r);
}

static __always_inline void write_record(const struct reclaim_sum *sum, __u32 kind, __u64 cgroup, __u64 now)
{
    __u64 thread = bpf_get_current_pid_tgid();
    struct reclaim_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
    if (!r) {
        __sync_fetch_and_add(&records_lost, 1);
        return;
    }
    r->h.size_bytes = sizeof(*r);
    r->h.kind = RECORD_RECLAIM;
    r->h.reserved = 0;
    r->h.time_ns = now;
    r->h.pid = thread >> 32;
    r->h.tid = thread;
    r->cgroup_id = cgroup;
    r->ns = sum->ns;
    r->interval_ns = now - sum->begin_ns;
    r->kind = kind;
    r->reserved = 0;
    bpf_get_current_comm(r->comm, sizeof(r->comm));
    bpf_ringbuf_submit(r, 0);
}

/* A function of its own, which the verifier follows once: three programs call it. */
__noinline int end(__u32 kind, __u64 pages)
{
    __u32 tid = bpf_get_current_pid_tgid();
    struct reclaim_thread *thread = bpf_map_lookup_elem(&threads, &tid);
    if (!thread || kind >= RECLAIM_KINDS || !thread->kinds[kind].start_ns)
        return 0;
    struct reclaim_thread_kind *t = &thread->kinds[kind];
    __u64 timer_ns = timer_start(RECLAIM_TIMER_END), now = bpf_ktime_get_ns(), start_ns = t->start_ns;
    __u64 id = cgroup_id(cgroup_of((struct task_struct *)bpf_get_current_task()));
    struct reclaim_cgroup *c = find_cgroup(id);
    t->start_ns = 0;
    if (c) {
        __sync_fetch_and_add(&c->kinds[kind].runs, 1);
        __sync_fetch_and_add(&c->kinds[kind].ns, now - start_ns);
        __sync_fetch_and_add(&c->kinds[kind].pages, pages);
    }
    if (has_recorder && add_up(&t->recorder, start_ns, now, RECLAIM_RECORDER_NS)) {
        record_for_requests(&t->recorder, kind, id, now);
        t->recorder.begin_ns = 0;
    }
    if (add_up(&t->event, start_ns, now, threshold_ns)) {
        write_record(&t->event, kind, id, now);
        t->event.begin_ns = 0;
    }
    timer_stop(RECLAIM_TIMER_END, timer_ns);
    return 0;
}

/* ---- reclaim: the number of freed pages is the only argument of its end ---- */

SEC("raw_tp/mm_vmscan_direct_reclaim_begin")
int reclaim_node_begin(__u64 *arguments)
{
    begin(RECLAIM_NODE);
    return 0;
}

SEC("raw_tp/mm_vmscan_direct_reclaim_end")
int reclaim_node_end(__u64 *arguments)
{
    return end(RECLAIM_NODE, arguments[0]);
}

/* A kernel thread reclaims memory of other threads' cgroups. */
SEC("raw_tp/mm_vmscan_memcg_reclaim_begin")
int reclaim_limit_begin(__u64 *arguments)
{
    if (!is_kernel_thread())
        begin(RECLAIM_LIMIT);
    return 0;
}

SEC("raw_tp/mm_vmscan_memcg_reclaim_end")
int reclaim_limit_end(__u64 *arguments)
{
    return end(RECLAIM_LIMIT, arguments[0]);
}

/* ---- compaction: kcompactd's delays no thread ---- */

SEC("raw_tp/mm_compaction_begin")
int reclaim_compaction_begin(__u64 *arguments)
{
    if (!is_kernel_thread())
        begin(RECLAIM_COMPACTION);
    return 0;
}

SEC("raw_tp/mm_compaction_end")
int reclaim_compaction_end(__u64 *arguments)
{
    return end(RECLAIM_COMPACTION, 0);
}
