/* The rows in a batch; see batch.h. */
#include "server/batch.h"

#include <string.h>

struct rows_header {
    uint32_t table, size;
};

void batch_put_rows(struct buf *batch, enum table table, const struct buf *rows)
{
    const struct rows_header header = {.table = table, .size = (uint32_t)rows->size};
    if (!rows->size)
        return;
    buf_append(batch, &header, sizeof(header));
    buf_append(batch, rows->data, rows->size);
}

bool batch_next_rows(struct cursor *batch, enum table *ret_table, struct cursor *ret_rows)
{
    struct rows_header header;
    if (!cursor_left(batch))
        return false;
    const void *bytes = cursor_bytes(batch, sizeof(header));
    if (!bytes)
        return false;
    memcpy(&header, bytes, sizeof(header));
    *ret_table = header.table;
    *ret_rows = cursor_sub(batch, header.size);
    return !batch->failed && header.table < TABLE_COUNT;
}
