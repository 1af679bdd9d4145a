/* Run count and run time of every BPF program on this machine, during a measurement. The kernel counts only while a
 * descriptor of BPF_ENABLE_STATS is open (Linux 5.8), so there is no cost before and after. Meanwhile each run costs
 * two extra clock readings; its own run time includes half of them.
 *
 * Not a `struct source`: it loads no program and produces no records. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

#define BPF_USE_NAME_BYTES   128
#define BPF_USE_PLACES_BYTES 128

struct bpf_program_use {
    uint32_t id;
    const char *type;                  /* "tracepoint", "sched_cls"; static string; "?" if unknown to libbpf */
    char name[BPF_USE_NAME_BYTES];     /* as in its source; without BTF the 15 bytes that the kernel keeps */
    char places[BPF_USE_PLACES_BYTES]; /* attach points known from links: "raw_tracepoint sys_enter, cgroup" */
    uint64_t runs, run_time_ns;        /* since bpf_statistics_new */
    uint64_t missed;                   /* runs skipped because it was already running on that CPU (Linux 5.12) */
};

struct bpf_statistics;

/* Starts counting. Programs are held open until bpf_statistics_free, so that those unloaded meanwhile are reported,
 * too. -EPERM: lacks CAP_SYS_ADMIN; -EOPNOTSUPP: not supported by this kernel. */
int bpf_statistics_new(struct bpf_statistics **ret);
void bpf_statistics_free(struct bpf_statistics *s);
DEFINE_FREEP(bpf_statistics)

/* Stops counting and returns an array sorted by ID, owned by `s`. To be called once. -errno, -ENOMEM: `s` can only be
 * freed. */
int bpf_statistics_read(struct bpf_statistics *s, struct bpf_program_use **ret, size_t *ret_count);

uint64_t bpf_statistics_duration_ns(const struct bpf_statistics *s); /* length of the measurement */
/* Programs that are not reported: beyond the limit of held programs, or refused by the kernel. */
uint64_t bpf_statistics_left_out(const struct bpf_statistics *s);
