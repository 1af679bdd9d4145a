/* A profile as one HTML file that needs nothing else: the flame graph of web/flame.html with the speedscope
 * JSON put where its placeholder stands. */
#include "export/html.h"

#include "export/export.h"
#include "web_assets.h"

#include <errno.h>
#include <string.h>

static const char *find_place(void)
{
    return memmem(web_flame_html, web_flame_html_size(), WEB_FLAME_PLACEHOLDER, strlen(WEB_FLAME_PLACEHOLDER));
}

int html_put_head(struct buf *out)
{
    const char *place = find_place();
    return place ? buf_append(out, web_flame_html, (size_t)(place - web_flame_html)) : -ENODATA;
}

int html_put_tail(struct buf *out)
{
    const char *place = find_place(), *end = web_flame_html + web_flame_html_size();
    if (!place)
        return -ENODATA;
    place += strlen(WEB_FLAME_PLACEHOLDER);
    return buf_append(out, place, (size_t)(end - place));
}

static int html_write(const struct profile *p, struct buf *out)
{
    int r = html_put_head(out);
    if (r == 0)
        r = exporter_speedscope.write(p, out);
    if (r == 0)
        r = html_put_tail(out);
    return r < 0 ? r : buf_error(out);
}

const struct exporter exporter_html = {
    .name = "html",
    .suffix = ".html",
    .content_type = "text/html; charset=utf-8",
    .help = "a flame graph as one file for any browser, without a network",
    .write = html_write,
};
