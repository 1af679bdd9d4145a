/* `sonde bpf --lines`: CPU samples by source line of BPF programs. */
#pragma once

#include "aggregate/bpf_line_counts.h"
#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct bpf_programs;

struct bpf_lines {
    struct bpf_programs *programs; /* resolves addresses; borrowed */
    const char *name;              /* prefix of the function names to count; NULL: all. Borrowed. */
    uint64_t period_ns;            /* CPU time per sample */
    uint64_t samples;              /* all samples taken in the kernel, in BPF programs or not */
    struct bpf_line_counts counts;
};

/* Adds one sample: kernel_samples_read's callback. `context` is the struct bpf_lines, `addresses` the stack, innermost
 * frame first. */
void bpf_lines_add(void *context, const uint64_t *addresses, size_t count);
void bpf_lines_clear(struct bpf_lines *l);

/* Appends a table of at most `max` lines, most samples first. `duration_ns`: length of the sampling interval. */
void bpf_lines_put(struct bpf_lines *l, uint64_t duration_ns, unsigned max, struct buf *out);
/* Appends all lines: [{"function","file","line","samples","time_ns","called_ns"}] */
void bpf_lines_put_json(struct bpf_lines *l, struct buf *out);
