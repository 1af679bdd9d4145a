/* Dictionary of OTLP profiles; see otlp_dictionary.h. Exception of the format: row 0 of links is not empty, but has
 * identifiers of zeros. */
#include "export/otlp_dictionary.h"

#include "base/protobuf.h"

#include <errno.h>

void otlp_dictionary_clear(struct otlp_dictionary *d)
{
    for (size_t i = 0; i < OTLP_TABLES; i++) {
        strings_free(d->rows[i]);
        d->rows[i] = NULL;
    }
    buf_clear(&d->text);
}

int otlp_dictionary_reset(struct otlp_dictionary *d)
{
    otlp_dictionary_clear(d);
    d->error = 0;
    for (size_t i = 0; i < OTLP_TABLES && d->error == 0; i++)
        d->error = strings_new(&d->rows[i]);
    return d->error;
}

static uint32_t put_row(struct otlp_dictionary *d, enum otlp_table table, const char *data, size_t size)
{
    struct strings *rows = d->rows[table - 1];
    if (d->error || size == 0)
        return 0;
    const uint32_t row = strings_add_n(rows, data, size); /* its memory limit is reached long before INT32_MAX rows */
    if (row == 0)
        d->error = -ENOMEM;
    return row;
}

uint32_t otlp_dictionary_put(struct otlp_dictionary *d, enum otlp_table table, struct buf *row)
{
    if (buf_error(row) < 0 && !d->error)
        d->error = buf_error(row);
    const uint32_t number = put_row(d, table, row->data, row->size);
    row->size = 0;
    return number;
}

uint32_t otlp_dictionary_put_text(struct otlp_dictionary *d, const char *text)
{
    d->text.size = 0;
    int r = text[0] ? buf_put_utf8(&d->text, text) : 0;
    if (r < 0 && !d->error)
        d->error = r;
    return put_row(d, OTLP_STRING, d->text.data, d->text.size);
}

static void write_no_link(struct buf *out)
{
    static const char zeros[16];
    _cleanup_buf_ struct buf row = {0};
    protobuf_put_bytes(&row, LINK_TRACE_ID, zeros, 16);
    protobuf_put_bytes(&row, LINK_SPAN_ID, zeros, 8);
    protobuf_put_message(out, OTLP_LINK, &row);
}

void otlp_dictionary_write(const struct otlp_dictionary *d, struct buf *out)
{
    for (size_t i = 0; i < OTLP_TABLES; i++)
        for (uint32_t row = 0; row < strings_count(d->rows[i]); row++) {
            if (i + 1 == OTLP_LINK && row == 0)
                write_no_link(out);
            else
                protobuf_put_bytes(out, (uint32_t)i + 1, strings_get(d->rows[i], row), strings_size(d->rows[i], row));
        }
}
