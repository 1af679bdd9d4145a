/* See io_report_html.h. */
#include "export/io_report_html.h"

#include "export/html.h"
#include "export/io_report_json.h"
#include "web_assets.h"

static const struct html_page io_page = {web_io_html, web_io_html_end};

int io_report_html_put(const struct io_report *report, const struct io_finding *findings, size_t finding_count,
                       struct buf *out)
{
    _cleanup_buf_ struct buf title = {0};
    buf_printf(&title, "Sonde: I/O of %s", report->title);
    int r = buf_error(&title) ? buf_error(&title) : html_put_head(&io_page, title.data, out);
    if (r == 0)
        r = io_report_json_put(report, findings, finding_count, out);
    if (r == 0)
        r = html_put_tail(&io_page, out);
    return r < 0 ? r : buf_error(out);
}
