/* Two profiles compared, as a differential flame graph: one HTML file that needs nothing else. Widths are shares of
 * either whole, colours what became of them. */
#pragma once

#include "base/buf.h"
#include "model/profile_diff.h"

int diff_html_write(struct buf *out, const struct profile_diff *d);
/* What is in that file: the comparison as the agent's page reads it. */
int diff_json_write(struct buf *out, const struct profile_diff *d);
