/* A profile as one HTML file that needs nothing else: the flame graph of web/flame.html with the speedscope
 * JSON put where its placeholder stands. That JSON has no `<` in it (buf_put_json_string writes \u003c), so
 * that it cannot end the element it is in. */
#include "export/export.h"
#include "web_assets.h"

#include <errno.h>
#include <string.h>

static int html_write(const struct profile *p, struct buf *out)
{
    const char *page = web_flame_html;
    size_t size = web_flame_html_size();
    const char *place = memmem(page, size, WEB_FLAME_PLACEHOLDER, strlen(WEB_FLAME_PLACEHOLDER));
    if (!place)
        return -ENODATA;
    const char *rest = place + strlen(WEB_FLAME_PLACEHOLDER);
    buf_append(out, page, (size_t)(place - page));
    int r = exporter_speedscope.write(p, out);
    if (r < 0)
        return r;
    buf_append(out, rest, (size_t)(page + size - rest));
    return buf_error(out);
}

const struct exporter exporter_html = {
    .name = "html",
    .suffix = ".html",
    .content_type = "text/html; charset=utf-8",
    .help = "a flame graph as one file for any browser, without a network",
    .write = html_write,
};
