/* The page that shows a profile without anything else: what comes before the profile's JSON in it, and what behind. The JSON must have
 * no `<` in it (buf_put_json_string writes \u003c), so that it cannot end the element it is in. */
#pragma once

#include "base/buf.h"

int html_put_head(struct buf *out);
int html_put_tail(struct buf *out);
