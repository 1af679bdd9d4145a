/* Text cells padded to a width; see table_cell.h. */
#include "cli/table_cell.h"

#include "base/buf.h"

#include <stdbool.h>
#include <string.h>

static bool begins_character(char c)
{
    return (c & 0xC0) != 0x80; /* as in UTF-8 */
}

static int count_characters(const char *text, size_t size)
{
    int count = 0;
    for (size_t i = 0; i < size; i++)
        count += begins_character(text[i]);
    return count;
}

void table_cell_put(struct buf *out, const char *text, int width)
{
    const size_t before = out->size;
    buf_put_shown(out, text);
    const int characters = out->size > before ? count_characters(out->data + before, out->size - before) : 0;
    buf_printf(out, "%*s", characters < width ? width - characters : 0, "");
}

#define NAME_CUT_MAX 12 /* a rest of a name of so many bytes is left out */

void table_cell_put_end(struct buf *out, const char *text, int width)
{
    static const char dots[] = "...";
    const int kept = width - (int)strlen(dots);
    int left_out = count_characters(text, strlen(text)) - kept;
    if (kept <= 0 || left_out <= width - kept) {
        table_cell_put(out, text, width);
        return;
    }
    const char *end = text;
    while (left_out || !begins_character(*end))
        left_out -= begins_character(*end++);
    const char *slash = strchr(end, '/');
    if (slash && slash - end <= NAME_CUT_MAX)
        end = slash;
    buf_puts(out, dots);
    table_cell_put(out, end, kept);
}
