/* The processes that hold a BPF program by a file descriptor of it, or of a link to it, according to /proc/PID/fdinfo.
 * A program attached by an ioctl of a perf event, or pinned, is kept alive otherwise and has no holder here. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bpf_holder {
    uint32_t program; /* program ID */
    uint32_t pid;
    char command[16];
};

/* All holders except this process, sorted by program, then by process; the caller frees `*ret`. `*ret_refused`: number
 * of processes whose descriptors may not be read. Negative errno on failure. */
int bpf_holders_read(struct bpf_holder **ret, size_t *ret_count, uint64_t *ret_refused);

/* The program ID in a descriptor's fdinfo; 0: none. */
uint32_t bpf_holders_parse(const char *fdinfo);
