/* Comparison of two profiles as text: functions whose share of the total changed, largest growth first; and folded
 * stacks with both weights, as difffolded.pl writes them. Functions return 0, or the buffer's error. */
#pragma once

#include "base/buf.h"
#include "model/profile_diff.h"

#include <stdbool.h>
#include <stddef.h>

struct diff_text_options {
    bool by_total; /* total time (with callees); otherwise self time */
    bool all;      /* also changes within sampling noise */
    bool is_time;  /* weights are nanoseconds */
    size_t rows;   /* maximum number of functions */
};

int diff_text_write(struct buf *out, const struct profile_diff *d, const struct diff_text_options *options);

/* One line per stack, `stack before after`, both normalised to the larger total, so that equal shares are equal
 * numbers. */
int diff_folded_write(struct buf *out, const struct profile_diff *d);
