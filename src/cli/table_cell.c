/* Text cells padded to a width; see table_cell.h. */
#include "cli/table_cell.h"

#include "base/buf.h"

#include <string.h>

void table_cell_put(struct buf *out, const char *text, int width)
{
    const size_t before = out->size;
    int characters = 0;
    buf_put_shown(out, text);
    for (size_t i = before; i < out->size; i++)
        characters += (out->data[i] & 0xC0) != 0x80;
    buf_printf(out, "%*s", characters < width ? width - characters : 0, "");
}

#define NAME_CUT_MAX 12 /* a rest of a name of so many bytes is left out */

void table_cell_put_end(struct buf *out, const char *text, int width)
{
    static const char dots[] = "...";
    const int kept = width - (int)strlen(dots);
    const size_t size = strlen(text);
    if (kept <= 0 || size <= (size_t)width) {
        table_cell_put(out, text, width);
        return;
    }
    const char *end = text + size - (size_t)kept;
    while (((unsigned char)*end & 0xC0) == 0x80) /* within a character of UTF-8 */
        end++;
    const char *slash = strchr(end, '/');
    if (slash && slash - end <= NAME_CUT_MAX)
        end = slash;
    buf_puts(out, dots);
    table_cell_put(out, end, kept);
}
