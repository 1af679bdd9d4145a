/* Comparison of two profiles as a differential flame graph: one self-contained HTML file. Widths are shares of the
 * totals, colours show the change. Functions return 0 or -errno. */
#pragma once

#include "base/buf.h"
#include "model/profile_diff.h"

int diff_html_write(struct buf *out, const struct profile_diff *d);
/* The JSON in that file, which the agent's page reads too. */
int diff_json_write(struct buf *out, const struct profile_diff *d);
