/* Text cells padded to a width; see table_cell.h. */
#include "cli/table_cell.h"

#include "base/buf.h"

void table_cell_put(struct buf *out, const char *text, int width)
{
    const size_t before = out->size;
    int characters = 0;
    buf_put_shown(out, text);
    for (size_t i = before; i < out->size; i++)
        characters += (out->data[i] & 0xC0) != 0x80;
    buf_printf(out, "%*s", characters < width ? width - characters : 0, "");
}
