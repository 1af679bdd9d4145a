/* The self-contained flame graph page: the parts before and after the profile's JSON. The JSON must not contain `<`
 * (buf_put_json_string writes \u003c), so that it cannot end the element it is in. Functions return 0 or -errno. */
#pragma once

#include "base/buf.h"

/* Title text for a profile type: "CPU time"; for an event, its name. */
const char *html_title_of(const char *type);
/* `title` is escaped. */
int html_put_head(struct buf *out, const char *title);
int html_put_tail(struct buf *out);
