/* In which lines of BPF programs CPUs were found: samples added up by line. Bounded; what finds no room is counted as
 * `others`. */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct bpf_line;
struct bpf_programs;

struct bpf_lines {
    struct bpf_programs *programs; /* that addresses are looked up in; borrowed */
    const char *name;              /* only functions whose name begins with that; NULL: all. Borrowed. */
    uint64_t period_ns;            /* that a sample stands for */
    uint64_t samples, others;      /* of CPUs in the kernel, whatever they did; of lines past the bound */
    struct bpf_line *all;          /* private */
};

/* One sample, as kernel_samples.h gives it; `context` is the bpf_lines. */
void bpf_lines_add(void *context, const uint64_t *addresses, size_t count);
void bpf_lines_clear(struct bpf_lines *l);

/* What took most first; at most `max`. `duration_ns`: that it was looked for. */
void bpf_lines_put(struct bpf_lines *l, uint64_t duration_ns, unsigned max, struct buf *out);
/* [{"function","file","line","samples","time_ns","called_ns"}] */
void bpf_lines_put_json(struct bpf_lines *l, struct buf *out);
