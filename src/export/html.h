/* The page that shows a profile without anything else: what comes before the profile's JSON in it, and what behind. The
 * JSON must have no `<` in it (buf_put_json_string writes \u003c), so that it cannot end the element it is in. */
#pragma once

#include "base/buf.h"

/* What a profile of this type is of, for a title: "CPU time"; an event's is its own. */
const char *html_title_of(const char *type);
/* `title`: any text. */
int html_put_head(struct buf *out, const char *title);
int html_put_tail(struct buf *out);
