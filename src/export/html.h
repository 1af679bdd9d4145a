/* The self-contained pages: the parts before and after the JSON that is put into one. The JSON must not contain `<`
 * (buf_put_json_string writes \u003c), so that it cannot end the element it is in. Functions return 0 or -errno. */
#pragma once

#include "base/buf.h"

/* Of web_assets.h; static. */
struct html_page {
    const char *start, *end;
};
extern const struct html_page html_page_flame; /* takes the JSON of a profile */

/* Title text for a profile type: "CPU time"; for an event, its name. */
const char *html_title_of(const char *type);
/* `title` is escaped. */
int html_put_head(const struct html_page *page, const char *title, struct buf *out);
int html_put_tail(const struct html_page *page, struct buf *out);
