/* Formats method names as HotSpot does; see hotspot_name.h. */
#include "resolve/interpreter/hotspot_name.h"

#include "base/cursor.h"

#include <stdbool.h>
#include <string.h>

#define DIMENSIONS_MAX 255 /* limit of the class file format */

/* Slashes become dots. A hidden class (created at run time) has "+0x..." before its last component, which HotSpot
 * writes with a slash. */
static void put_class(struct buf *to, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const bool is_hidden = data[i] == '+' && size - i > 3 && data[i + 1] == '0' && data[i + 2] == 'x';
        buf_putc(to, data[i] == '/' ? '.' : is_hidden ? '/' : data[i]);
    }
}

static const char *basic_type(uint8_t letter)
{
    switch (letter) {
    case 'B':
        return "byte";
    case 'C':
        return "char";
    case 'D':
        return "double";
    case 'F':
        return "float";
    case 'I':
        return "int";
    case 'J':
        return "long";
    case 'S':
        return "short";
    case 'Z':
        return "boolean";
    case 'V':
        return "void";
    default:
        return NULL;
    }
}

/* False: malformed. */
static bool put_type(struct cursor *from, struct buf *to)
{
    unsigned dimensions = 0;
    uint8_t letter = cursor_u8(from);
    for (; letter == '[' && dimensions < DIMENSIONS_MAX; dimensions++)
        letter = cursor_u8(from);
    const char *basic = basic_type(letter);
    if (basic) {
        buf_puts(to, basic);
    } else if (letter == 'L') {
        const char *name = (const char *)from->data + from->position;
        const char *end = cursor_left(from) ? memchr(name, ';', cursor_left(from)) : NULL;
        if (!end)
            return false;
        put_class(to, name, (size_t)(end - name));
        cursor_skip(from, (size_t)(end - name) + 1);
    } else {
        return false;
    }
    for (; dimensions; dimensions--)
        buf_puts(to, "[]");
    return !from->failed;
}

/* "(int, java.lang.String)" */
static bool put_parameters(struct cursor *from, struct buf *to)
{
    if (cursor_u8(from) != '(')
        return false;
    buf_putc(to, '(');
    for (bool first = true; cursor_left(from) && from->data[from->position] != ')'; first = false) {
        if (!first)
            buf_puts(to, ", ");
        if (!put_type(from, to))
            return false;
    }
    buf_putc(to, ')');
    return cursor_u8(from) == ')' && !from->failed;
}

/* Splits a signature into parameters and return type. False: malformed or truncated. */
static bool read_signature(const struct hotspot_text *signature, struct buf *ret_parameters, struct buf *ret_type)
{
    struct cursor from = cursor_make(signature->data, signature->size);
    return signature->whole == signature->size && put_parameters(&from, ret_parameters) && put_type(&from, ret_type) &&
           cursor_left(&from) == 0;
}

static void put_cut(struct buf *to, const struct hotspot_text *text)
{
    if (text->whole > text->size)
        buf_puts(to, "...");
}

int hotspot_name_write(const struct hotspot_text *holder, const struct hotspot_text *name,
                       const struct hotspot_text *signature, struct buf *to)
{
    _cleanup_buf_ struct buf parameters = {0}, type = {0}, raw = {0};
    const bool is_sound = signature->whole && read_signature(signature, &parameters, &type);
    if (is_sound)
        buf_printf(&raw, "%s ", type.data);
    if (holder->size) {
        put_class(&raw, holder->data, holder->size);
        put_cut(&raw, holder);
        buf_putc(&raw, '.');
    }
    buf_append(&raw, name->data, name->size);
    put_cut(&raw, name);
    if (is_sound)
        buf_puts(&raw, parameters.data);
    else if (signature->whole > signature->size)
        buf_puts(&raw, "(...)");
    for (size_t i = 0; i < raw.size; i++) /* a newline in a name would break line-based output */
        if ((unsigned char)raw.data[i] < 0x20 || raw.data[i] == 0x7f)
            raw.data[i] = '?';
    const int r = buf_error(&raw) ?: buf_error(&parameters) ?: buf_error(&type);
    return r < 0 ? r : buf_put_utf8(to, raw.size ? raw.data : "");
}
