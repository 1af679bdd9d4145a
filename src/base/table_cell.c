/* Text cells padded to a width; see table_cell.h. */
#include "base/table_cell.h"

#include "base/buf.h"
#include "base/utf8.h"

#include <string.h>

void table_cell_put(struct buf *out, const char *text, int width)
{
    const size_t before = out->size;
    buf_put_shown(out, text);
    const int characters = out->size > before ? (int)utf8_count(out->data + before, out->size - before) : 0;
    buf_printf(out, "%*s", characters < width ? width - characters : 0, "");
}

#define NAME_CUT_MAX 12 /* a rest of a name of so many bytes is left out */

void table_cell_put_end(struct buf *out, const char *text, int width)
{
    static const char dots[] = "...";
    const int kept = width - (int)strlen(dots);
    const int left_out = (int)utf8_count(text, strlen(text)) - kept;
    if (kept <= 0 || left_out <= width - kept) {
        table_cell_put(out, text, width);
        return;
    }
    const char *end = utf8_skip(text, (size_t)left_out);
    const char *slash = strchr(end, '/');
    if (slash && slash - end <= NAME_CUT_MAX)
        end = slash;
    buf_puts(out, dots);
    table_cell_put(out, end, kept);
}
