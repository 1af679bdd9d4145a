/* Two profiles compared, as text: functions whose share of the whole changed, the largest growth first; and folded
 * stacks with the weights of both, the input of difffolded.pl's readers. */
#pragma once

#include "base/buf.h"
#include "model/profile_diff.h"

#include <stdbool.h>
#include <stddef.h>

struct diff_text_options {
    bool by_total; /* with all that a function called; else by itself */
    bool all;      /* also what changed by less than chance may make of it */
    bool is_time;  /* weights are nanoseconds */
    size_t rows;   /* at most */
};

int diff_text_write(struct buf *out, const struct profile_diff *d, const struct diff_text_options *options);

/* `stack before after`, one line a stack, both normalised to the larger of the two wholes, so that equal shares are
 * equal numbers. */
int diff_folded_write(struct buf *out, const struct profile_diff *d);
