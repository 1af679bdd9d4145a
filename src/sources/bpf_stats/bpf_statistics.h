/* How often each BPF program of this machine ran, and how long, while somebody asks: the kernel counts that only as
 * long as a descriptor of BPF_ENABLE_STATS is open (Linux 5.8), so there is no cost before and after. Meanwhile a run
 * costs two readings of the clock more, which its own time has half of.
 *
 * No `struct source`: nothing is put into the kernel, and there are no records. One thread. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

#define BPF_USE_NAME_BYTES   128
#define BPF_USE_PLACES_BYTES 128

struct bpf_program_use {
    uint32_t id;
    const char *type;              /* "tracepoint", "sched_cls"; static; "?" when libbpf does not know it */
    char name[BPF_USE_NAME_BYTES]; /* as its source has it; what the kernel kept of that (15 bytes) where it has no BTF
                                    */
    char places[BPF_USE_PLACES_BYTES]; /* where it is attached, as far as links tell: "raw_tracepoint sys_enter, cgroup"
                                        */
    uint64_t runs, run_time_ns;        /* since bpf_statistics_new */
    uint64_t missed; /* runs that were left out, because it was at work on that CPU already (Linux 5.12) */
};

struct bpf_statistics;

/* Counting begins. Programs are held until bpf_statistics_free, so that those which are unloaded meanwhile are told
 * too. -EPERM without CAP_SYS_ADMIN; -EOPNOTSUPP: this kernel cannot. */
int bpf_statistics_new(struct bpf_statistics **ret);
void bpf_statistics_free(struct bpf_statistics *s);
DEFINE_FREEP(bpf_statistics)

/* Counting ends. The array is the statistics', by ID. Once. */
int bpf_statistics_read(struct bpf_statistics *s, struct bpf_program_use **ret, size_t *ret_count);

uint64_t bpf_statistics_duration_ns(const struct bpf_statistics *s); /* that was counted for */
/* Programs that are not told of: more than can be held at a time, or refused. */
uint64_t bpf_statistics_left_out(const struct bpf_statistics *s);
