/* See requests_html.h. */
#include "export/requests_html.h"

#include "base/units.h"
#include "export/coverage_json.h"
#include "export/html.h"
#include "export/requests_json.h"
#include "web_assets.h"

static const struct html_page requests_page = {web_requests_html, web_requests_html_end};

static int put_head(struct request *const *requests, size_t count, struct buf *out)
{
    _cleanup_buf_ struct buf title = {0};
    char duration[32];
    if (count == 1)
        buf_printf(&title, "Sonde: %s %s took %s", requests[0]->method, requests[0]->route,
                   units_format_duration(requests[0]->duration_ns, duration, sizeof(duration)));
    else
        buf_printf(&title, "Sonde: the %zu slowest requests", count);
    return buf_error(&title) ? buf_error(&title) : html_put_head(&requests_page, title.data, out);
}

int requests_html_write(struct request *const *requests, size_t count, const struct coverage *coverage, struct buf *out)
{
    int r = put_head(requests, count, out);
    if (r == 0) {
        coverage_json_begin(coverage, COVERAGE_REQUESTS, "requests", out);
        requests_json_write(requests, count, out);
        r = buf_putc(out, '}');
    }
    if (r == 0)
        r = html_put_tail(&requests_page, out);
    return r < 0 ? r : buf_error(out);
}
