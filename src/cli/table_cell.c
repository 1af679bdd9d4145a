/* Text cells padded to a width; see table_cell.h. */
#include "cli/table_cell.h"

#include "base/buf.h"

void table_cell_put(struct buf *out, const char *text, int width)
{
    const size_t before = out->size;
    buf_put_utf8(out, text);
    for (size_t i = before; i < out->size; i++)
        if ((unsigned char)out->data[i] < 0x20 || out->data[i] == 0x7F)
            out->data[i] = '?';
    buf_printf(out, "%*s", (int)(out->size - before) < width ? width - (int)(out->size - before) : 0, "");
}
