/* Counts CPU samples by source line of BPF programs, for `sonde bpf --lines`. The table is bounded: samples of further
 * lines are counted in `others`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BPF_LINE_COUNTS_MAX 10000 /* lines */

struct bpf_line_count {
    const char *function, *file; /* `file` "": not known. Cut to 255 bytes */
    uint32_t line;               /* 0: not known */
    uint64_t samples;
    uint64_t called; /* of those, in kernel functions that the line calls (helpers, maps) */
};

struct bpf_line_counts {
    struct bpf_line_entry *all; /* private */
    uint64_t others;            /* samples of lines past the bound */
};

void bpf_line_counts_clear(struct bpf_line_counts *c);

/* Counts one sample; `is_called`: in a function that the line calls. */
void bpf_line_counts_add(struct bpf_line_counts *c, const char *function, const char *file, uint32_t line,
                         bool is_called);

/* The line with the most samples; NULL: there is none. Lines are valid until the next sample. */
const struct bpf_line_count *bpf_line_counts_first(struct bpf_line_counts *c);
/* The one after it; NULL: it is the last one. */
const struct bpf_line_count *bpf_line_counts_next(const struct bpf_line_count *line);
