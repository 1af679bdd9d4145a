/* Escaping of untrusted strings of a trace file; see triton_text.h. */
#include "trace/export/triton_text.h"

#include "base/utf8.h"

#include <errno.h>
#include <string.h>

#define SHOWN_MAX 1024

void triton_text_put_shown(struct buf *out, struct triton_text text)
{
    size_t size = text.size < SHOWN_MAX ? text.size : SHOWN_MAX;
    for (size_t i = 0; i < size;) {
        char c[8] = {0};
        memcpy(c, text.at + i, text.size - i < 4 ? text.size - i : 4);
        size_t n = utf8_length(c);
        if (utf8_is_control(utf8_decode(c)))
            buf_printf(out, n == 1 ? "\\x%02x" : "\\u%04x", utf8_decode(c));
        else if (n == 0)
            buf_puts(out, UTF8_REPLACEMENT);
        else
            buf_append(out, c, n);
        i += n ? n : 1;
    }
    if (size < text.size)
        buf_printf(out, "... (%zu bytes)", text.size);
}

/* NUL-terminated copy without inner NULs, as base/buf.h requires. */
static char *copy_without_nul(struct buf *out, struct triton_text text)
{
    char *copy = malloc(text.size + 1);
    if (!copy) {
        out->error = out->error ? out->error : -ENOMEM;
        return NULL;
    }
    for (size_t i = 0; i < text.size; i++)
        copy[i] = text.at[i] ? text.at[i] : '\x1A';
    copy[text.size] = '\0';
    return copy;
}

void triton_text_put_json(struct buf *out, struct triton_text text)
{
    _cleanup_free_ char *copy = copy_without_nul(out, text);
    if (copy)
        buf_put_json_string(out, copy);
}

void triton_text_put_utf8(struct buf *out, struct triton_text text)
{
    _cleanup_free_ char *copy = copy_without_nul(out, text);
    if (copy)
        buf_put_utf8(out, copy);
}
