/* Messages of the process that reads DWARF; see line_answer.h. */
#include "resolve/lines/line_answer.h"

#include "base/cursor.h"

#include <errno.h>
#include <string.h>

#define COUNT_AT 5 /* offset of the count of lines */

static void append_number(struct buf *out, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        buf_putc(out, (char)(value >> 8 * i & 0xff));
}

void line_answer_begin(struct buf *out, uint32_t number)
{
    out->size = 0;
    buf_putc(out, LINE_ANSWER_PLACE);
    append_number(out, number, 4);
    buf_putc(out, 0);
}

void line_answer_add(struct buf *out, const char *file, uint32_t line, const char *name, const char *system_name)
{
    const char *const texts[] = {file, name, system_name};
    append_number(out, line, 4);
    for (size_t i = 0; i < array_size(texts); i++)
        append_number(out, (uint32_t)strnlen(texts[i], LINE_ANSWER_TEXT_MAX), 2);
    for (size_t i = 0; i < array_size(texts); i++)
        buf_append(out, texts[i], strnlen(texts[i], LINE_ANSWER_TEXT_MAX));
}

bool line_answer_finish(struct buf *out, size_t count)
{
    if (buf_error(out) < 0)
        return false;
    out->data[COUNT_AT] = (char)count;
    return true;
}

void line_answer_end(struct buf *out, enum line_answer_status status)
{
    out->size = 0;
    buf_putc(out, LINE_ANSWER_END);
    buf_putc(out, (char)status);
}

static void read_string(struct cursor *c, size_t bytes, char *ret)
{
    const char *text = bytes <= LINE_ANSWER_TEXT_MAX ? cursor_bytes(c, bytes) : NULL;
    *ret = '\0';
    if (!text) {
        c->failed = true;
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        ret[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : text[i];
    ret[bytes] = '\0';
}

static int read_place(struct cursor *c, struct line_answer *ret)
{
    ret->number = cursor_u32(c);
    ret->count = cursor_u8(c);
    if (c->failed || ret->count == 0 || ret->count > LINE_ANSWER_LINES_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < ret->count; i++) {
        struct line_answer_line *line = &ret->lines[i];
        line->line = cursor_u32(c);
        const size_t file_bytes = cursor_u16(c), name_bytes = cursor_u16(c), system_name_bytes = cursor_u16(c);
        read_string(c, file_bytes, line->file);
        read_string(c, name_bytes, line->name);
        read_string(c, system_name_bytes, line->system_name);
    }
    return c->failed || cursor_left(c) ? -EBADMSG : 0;
}

int line_answer_read(const void *data, size_t size, struct line_answer *ret)
{
    struct cursor c = cursor_make(data, size);
    ret->kind = (enum line_answer_kind)cursor_u8(&c);
    ret->count = 0;
    if (ret->kind == LINE_ANSWER_PLACE)
        return read_place(&c, ret);
    const uint8_t status = cursor_u8(&c);
    ret->status = (enum line_answer_status)status;
    return ret->kind != LINE_ANSWER_END || c.failed || cursor_left(&c) || status >= LINE_STATUS_COUNT ? -EBADMSG : 0;
}
