/* Arguments of USDT probes; see usdt_arguments.h. Declaration and operands come from the observed program and are not
 * trusted: an argument of unknown form is treated as an unsigned integer. */
#include "resolve/usdt/usdt_arguments.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum usdt_type type_of(const char *text, size_t size)
{
    if (size == 3 && memcmp(text, "str", 3) == 0)
        return USDT_TEXT;
    if (size == 3 && memcmp(text, "ptr", 3) == 0)
        return USDT_POINTER;
    if (size == 3 && memcmp(text, "f64", 3) == 0)
        return USDT_DOUBLE;
    return size > 0 && text[0] == 'i' ? USDT_SIGNED : USDT_UNSIGNED;
}

/* "str model, u32 length" */
static void read_declaration(const char *at, struct usdt_arguments *a)
{
    while (*at && a->count < USDT_ARGUMENTS_MAX) {
        struct usdt_argument *argument = &a->all[a->count++];
        const size_t size = strcspn(at, ","), type = strcspn(at, " ,");
        argument->type = type_of(at, type);
        snprintf(argument->name, sizeof(argument->name), "%.*s", type < size ? (int)(size - type - 1) : 0,
                 at + type + (type < size));
        at += size;
        at += strspn(at, ", ");
    }
}

/* Whether an operand starts here: a size and "@", as in "-4@%esi". Blanks alone do not separate operands: operands of
 * arm64 contain some ("8@[sp, 16]"). */
static bool is_operand(const char *at)
{
    at += *at == '-';
    const size_t digits = strspn(at, "0123456789");
    return digits > 0 && (at[digits] == '@' || (at[digits] == 'f' && at[digits + 1] == '@'));
}

static void read_operands(const char *at, struct usdt_arguments *a)
{
    for (const char *before = " "; *at && a->count < USDT_ARGUMENTS_MAX; before = at++)
        if (*before == ' ' && is_operand(at)) {
            struct usdt_argument *argument = &a->all[a->count];
            argument->type = *at == '-' ? USDT_SIGNED : USDT_UNSIGNED;
            snprintf(argument->name, sizeof(argument->name), "arg%zu", a->count++);
        }
}

void usdt_arguments_read(const struct usdt_site *site, struct usdt_arguments *ret)
{
    struct usdt_arguments a = {0};
    if (site->declaration)
        read_declaration(site->declaration, &a);
    else
        read_operands(site->operands, &a);
    *ret = a;
}

int usdt_arguments_find(const struct usdt_arguments *a, const char *name)
{
    for (size_t i = 0; i < a->count; i++) {
        char number[24];
        snprintf(number, sizeof(number), "arg%zu", i);
        if (strcmp(a->all[i].name, name) == 0 || strcmp(number, name) == 0)
            return (int)i;
    }
    return -1;
}

uint32_t usdt_arguments_texts(const struct usdt_arguments *a)
{
    uint32_t texts = 0;
    for (size_t i = 0; i < USDT_ARGUMENTS_MAX; i++) /* entries past the count are zeroed */
        texts |= (uint32_t)(a->all[i].type == USDT_TEXT) << i;
    return texts;
}

/* Copies the string. Returns true when it was truncated: then its last byte is dropped. A string that fills the buffer
 * exactly cannot be distinguished from a longer one. */
static bool copy_text(const struct usdt_firing *f, size_t index, char ret[USDT_TEXT_BYTES])
{
    const size_t size = f->text_bytes[index];
    const bool is_cut = size == USDT_TEXT_BYTES;
    memcpy(ret, f->texts[index], is_cut ? size - 2 : size - 1);
    ret[is_cut ? size - 2 : size - 1] = '\0';
    return is_cut;
}

static bool is_text_unread(const struct usdt_firing *f, size_t index)
{
    return f->text_bytes[index] == 0 || f->text_bytes[index] > USDT_TEXT_BYTES;
}

static void put_text(const struct usdt_firing *f, size_t index, struct buf *out)
{
    char text[USDT_TEXT_BYTES];
    if (f->values[index] == 0) {
        buf_puts(out, "NULL");
    } else if (is_text_unread(f, index)) {
        buf_printf(out, "?0x%" PRIx64, (uint64_t)f->values[index]);
    } else {
        const bool is_cut = copy_text(f, index, text);
        buf_put_json_string(out, text); /* escapes control characters */
        buf_puts(out, is_cut ? "..." : "");
    }
}

void usdt_arguments_put(const struct usdt_arguments *a, const struct usdt_firing *f, size_t index, struct buf *out)
{
    const uint64_t value = f->values[index];
    double number;
    if (index >= f->argument_count || f->unread >> index & 1) {
        buf_putc(out, '?');
        return;
    }
    switch (a->all[index].type) {
    case USDT_SIGNED:
        buf_printf(out, "%" PRId64, (int64_t)value);
        return;
    case USDT_UNSIGNED:
        buf_printf(out, "%" PRIu64, value);
        return;
    case USDT_POINTER:
        buf_printf(out, "0x%" PRIx64, value);
        return;
    case USDT_DOUBLE:
        memcpy(&number, &value, sizeof(number));
        buf_printf(out, "%.17g", number);
        return;
    case USDT_TEXT:
        put_text(f, index, out);
        return;
    }
}

static void put_text_json(const struct usdt_firing *f, size_t index, struct buf *out)
{
    char text[USDT_TEXT_BYTES];
    if (f->values[index] == 0) {
        buf_puts(out, "null");
    } else if (is_text_unread(f, index)) {
        buf_puts(out, "{\"unread\":true}");
    } else {
        const bool is_cut = copy_text(f, index, text);
        buf_puts(out, is_cut ? "{\"cut\":" : "");
        buf_put_json_string(out, text);
        buf_puts(out, is_cut ? "}" : "");
    }
}

void usdt_arguments_put_json(const struct usdt_arguments *a, const struct usdt_firing *f, size_t index, struct buf *out)
{
    double number;
    if (index >= f->argument_count || f->unread >> index & 1) {
        buf_puts(out, "{\"unread\":true}");
        return;
    }
    const enum usdt_type type = a->all[index].type;
    memcpy(&number, &f->values[index], sizeof(number));
    if (type == USDT_TEXT) {
        put_text_json(f, index, out);
        return;
    }
    const bool is_no_number = type == USDT_POINTER || (type == USDT_DOUBLE && !isfinite(number));
    buf_puts(out, is_no_number ? "\"" : "");
    usdt_arguments_put(a, f, index, out);
    buf_puts(out, is_no_number ? "\"" : "");
}
