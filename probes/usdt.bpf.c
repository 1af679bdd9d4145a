/* Records each firing of a USDT probe with its arguments; src/sources/usdt/usdt_watch.c attaches it. Counts firings
 * lost to a full ring. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>

#include "probes/common/preemption.bpf.h"
#include "probes/usdt.h"

char LICENSE[] SEC("license") = "GPL";

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} firings SEC(".maps");

const volatile __u32 texts; /* bit set of the string arguments */

__u64 lost;

static __always_inline void record_firing(struct pt_regs *ctx)
{
    struct usdt_firing *f = bpf_ringbuf_reserve(&firings, sizeof(*f), 0);
    if (!f) {
        __sync_fetch_and_add(&lost, 1);
        return;
    }
    const __u64 id = bpf_get_current_pid_tgid();
    f->time_ns = bpf_ktime_get_ns();
    f->pid = id >> 32;
    f->tid = (__u32)id;
    bpf_get_current_comm(f->process, sizeof(f->process));
    f->argument_count = (__u32)bpf_usdt_arg_cnt(ctx);
    f->unread = 0;
    for (int i = 0; i < USDT_ARGUMENTS_MAX; i++) {
        long value = 0;
        if (bpf_usdt_arg(ctx, (__u64)i, &value) < 0 && (__u32)i < f->argument_count)
            f->unread |= 1u << i;
        f->values[i] = (__u64)value;
        f->text_bytes[i] = 0;
        if (texts >> i & 1 && value) {
            long size = bpf_probe_read_user_str(f->texts[i], USDT_TEXT_BYTES, (const void *)value);
            f->text_bytes[i] = size > 0 ? (__u8)size : 0;
        }
    }
    bpf_ringbuf_submit(f, 0);
}

SEC("usdt")
int fired(struct pt_regs *ctx)
{
    preemption_disable();
    record_firing(ctx);
    preemption_enable();
    return 0;
}
