/* Which processes hold a BPF program by a descriptor of it, or of a link to it, as /proc/PID/fdinfo tells. A program
 * that is attached by an ioctl of a perf event, or pinned, has other owners: nobody holds it here. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bpf_holder {
    uint32_t program; /* its ID */
    uint32_t pid;
    char command[16];
};

/* All of them but this very process, by program, then by process; the caller frees. Processes that may not be looked
 * into are counted. */
int bpf_holders_read(struct bpf_holder **ret, size_t *ret_count, uint64_t *ret_refused);

/* The program of a descriptor, by what its fdinfo says; 0: of none. */
uint32_t bpf_holders_parse(const char *fdinfo);
