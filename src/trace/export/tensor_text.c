/* A tensor of a trace as numpy prints an array; see tensor_text.h. */
#include "trace/export/tensor_text.h"

#include "export/decimal.h"
#include "trace/export/triton_text.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define LINE_WIDTH    75
#define EDGE_ITEMS    3
#define SUMMARY_ABOVE 1000
#define PRECISION     8
#define DIMENSIONS    32

enum element_kind { BOOLEAN, INTEGER, FLOATING };

/* The elements to print, in order. */
struct array {
    enum element_kind kind;
    enum decimal_type type;
    uint64_t shape[DIMENSIONS];
    int dimensions;
    uint64_t size;
    bool summarised;
    const char *at, *end; /* data not yet parsed */
    bool ended;
    uint64_t position; /* elements parsed */
    double *values;    /* FLOATING: values to print */
    size_t shown, capacity;
    struct buf words; /* one after the other */
    size_t width;
};

static void array_clear(struct array *a)
{
    free(a->values);
    buf_clear(&a->words);
}

/* ---- type and shape ---- */

static bool find_element_kind(struct triton_text dtype, struct array *a)
{
    static const struct {
        const char *name;
        enum element_kind kind;
        enum decimal_type type;
    } kinds[] = {{"BOOL", BOOLEAN, 0},
                 {"UINT8", INTEGER, 0},
                 {"UINT16", INTEGER, 0},
                 {"UINT32", INTEGER, 0},
                 {"UINT64", INTEGER, 0},
                 {"INT8", INTEGER, 0},
                 {"INT16", INTEGER, 0},
                 {"INT32", INTEGER, 0},
                 {"INT64", INTEGER, 0},
                 {"FP16", FLOATING, DECIMAL_HALF},
                 {"BF16", FLOATING, DECIMAL_BFLOAT},
                 {"FP32", FLOATING, DECIMAL_FLOAT},
                 {"FP64", FLOATING, DECIMAL_DOUBLE}};
    for (size_t i = 0; i < array_size(kinds); i++)
        if (triton_text_is(dtype, kinds[i].name, strlen(kinds[i].name))) {
            a->kind = kinds[i].kind;
            a->type = kinds[i].type;
            return true;
        }
    return false;
}

static bool parse_shape(struct triton_text shape, struct array *a)
{
    a->size = 1;
    const char *end = shape.size ? shape.at + shape.size : shape.at;
    for (const char *at = shape.at; at < end; at++) {
        uint64_t length = 0;
        if (a->dimensions == DIMENSIONS || *at < '0' || *at > '9')
            return false;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            if (__builtin_mul_overflow(length, 10, &length) ||
                __builtin_add_overflow(length, (uint64_t)(*at - '0'), &length))
                return false;
        if ((at < end && *at != ',') || __builtin_mul_overflow(a->size, length, &a->size))
            return false;
        a->shape[a->dimensions++] = length;
    }
    return a->dimensions > 0;
}

/* ---- elements ---- */

static bool next_element(struct array *a, struct triton_text *ret)
{
    if (a->ended)
        return false;
    const char *comma = memchr(a->at, ',', (size_t)(a->end - a->at));
    *ret = (struct triton_text){a->at, (size_t)((comma ? comma : a->end) - a->at)};
    a->ended = !comma;
    a->at = comma ? comma + 1 : a->end;
    a->position++;
    return true;
}

static bool next_word(struct array *a, uint64_t index, char ret[64])
{
    struct triton_text text = {0};
    do
        if (!next_element(a, &text))
            return false;
    while (a->position <= index);
    if (text.size == 0 || text.size >= 64)
        return false;
    memcpy(ret, text.at, text.size);
    ret[text.size] = '\0';
    return true;
}

static bool add_value(struct array *a, const char *word)
{
    char *end;
    errno = 0;
    if (a->kind == FLOATING) {
        double value = decimal_round(strtod(word, &end), a->type);
        if (a->shown == a->capacity) {
            size_t capacity = a->capacity ? a->capacity * 2 : 64;
            double *values = realloc(a->values, capacity * sizeof(*values));
            if (!values)
                return false;
            a->values = values;
            a->capacity = capacity;
        }
        a->values[a->shown++] = value;
        return *end == '\0' && end > word;
    }
    if (a->kind == BOOLEAN && word[1] == '\0' && (*word == '0' || *word == '1')) {
        buf_append(&a->words, *word == '1' ? " True" : "False", 6);
        a->width = 5;
        return true;
    }
    bool negative = *word == '-';
    unsigned long long distance = strtoull(word + negative, &end, 10);
    if (a->kind == BOOLEAN || *end || end == word + negative || errno || word[negative] < '0' || word[negative] > '9')
        return false;
    char text[32];
    int size = snprintf(text, sizeof(text), "%s%llu", negative && distance ? "-" : "", distance);
    buf_append(&a->words, text, (size_t)size + 1);
    a->width = (size_t)size > a->width ? (size_t)size : a->width;
    a->shown++;
    return true;
}

static bool is_left_out(const struct array *a, int axis, uint64_t i)
{
    return a->summarised && a->shape[axis] > 2 * EDGE_ITEMS && i >= EDGE_ITEMS && i < a->shape[axis] - EDGE_ITEMS;
}

static bool collect_elements(struct array *a, int axis, uint64_t first)
{
    char word[64];
    if (axis == a->dimensions)
        return next_word(a, first, word) && add_value(a, word);
    uint64_t stride = 1;
    for (int i = axis + 1; i < a->dimensions; i++)
        stride *= a->shape[i];
    for (uint64_t i = 0; i < a->shape[axis]; i++) {
        if (is_left_out(a, axis, i))
            i = a->shape[axis] - EDGE_ITEMS;
        if (!collect_elements(a, axis + 1, first + i * stride))
            return false;
    }
    return true;
}

/* ---- floating point: one format for all printed values ---- */

struct float_form {
    bool scientific;
    int left, right; /* characters before and after the point; scientific: digits after it */
    int exponent_digits;
};

/* Formats with the digits after the point needed to identify the value, at most PRECISION, without trailing zeros. */
static void format_shortest(double value, enum decimal_type type, bool scientific, char text[64])
{
    struct decimal d;
    decimal_shortest(value, type, &d);
    int behind = scientific ? d.count - 1 : d.count - 1 - d.exponent;
    int shown = behind < 0 ? 0 : behind > PRECISION ? PRECISION : behind;
    if (scientific) {
        snprintf(text, 64, "%.*e", shown, value);
        return;
    }
    int size = snprintf(text, 64, shown ? "%.*f" : "%.*f.", shown,
                        value); /* below 1e8: larger values use the scientific form */
    while (behind > shown && text[size - 1] == '0')
        text[--size] = '\0';
}

static void choose_float_form(const struct array *a, struct float_form *form)
{
    double high = 0, low = INFINITY;
    bool any = false, negative_infinity = false, other = false;
    for (size_t i = 0; i < a->shown; i++) {
        double v = fabs(a->values[i]);
        other |= !isfinite(v);
        negative_infinity |= a->values[i] == -INFINITY;
        any |= isfinite(v);
        if (isfinite(v) && v != 0) {
            high = v > high ? v : high;
            low = v < low ? v : low;
        }
    }
    *form = (struct float_form){
        .scientific = high > 0 && (high >= 1e8 || low < 0.0001 || decimal_round(high / low, a->type) > 1000)};
    for (size_t i = 0; any && i < a->shown; i++) {
        char text[64];
        if (!isfinite(a->values[i]))
            continue;
        format_shortest(a->values[i], a->type, form->scientific, text);
        char *point = strchr(text, '.'), *e = strchr(text, 'e');
        int left = (int)((point ? point : e) - text),
            right = point ? (int)((e ? e : text + strlen(text)) - point - 1) : 0;
        form->left = left > form->left ? left : form->left;
        form->right = right > form->right ? right : form->right;
        int exponent = e ? (int)strlen(e) - 2 : 0;
        form->exponent_digits = exponent > form->exponent_digits ? exponent : form->exponent_digits;
    }
    if (other) { /* room for "nan", "inf" or "-inf" */
        int right = form->scientific ? form->exponent_digits + 2 + form->right : form->right;
        int needed = (negative_infinity ? 4 : 3) - (right + 1);
        form->left = needed > form->left ? needed : form->left;
    }
}

static void put_float(struct array *a, double value, const struct float_form *form)
{
    char text[96], digits[64];
    int right = form->scientific ? form->exponent_digits + 2 + form->right : form->right;
    int width = form->left + 1 + right, size;
    a->width = (size_t)width;
    if (!isfinite(value)) {
        size = snprintf(text, sizeof(text), "%*s", width, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    } else if (form->scientific) { /* padded to the digits of the longest value, as numpy does */
        snprintf(digits, sizeof(digits), "%.*e", form->right, value);
        char *e = strchr(digits, 'e');
        size = snprintf(text, sizeof(text), "%*s%.*s%se%c%0*ld", form->left - (value < 0) - 1, "", (int)(e - digits),
                        digits, form->right ? "" : ".", e[1], form->exponent_digits, strtol(e + 2, NULL, 10));
    } else {
        format_shortest(value, a->type, false, digits);
        int left = (int)strcspn(digits, ".");
        size = snprintf(text, sizeof(text), "%*s%s%*s", form->left - left, "", digits,
                        form->right - (int)strlen(digits) + left + 1, "");
    }
    buf_append(&a->words, text, (size_t)size + 1);
}

/* ---- layout ---- */

struct layout {
    const struct array *array;
    const char *word;
    struct buf *out;
    size_t line; /* characters in the line so far */
};

static void put_indent(struct layout *l, size_t indent)
{
    for (size_t i = 0; i < indent; i++)
        buf_putc(l->out, ' ');
    l->line = indent;
}

static void put_word(struct layout *l, const char *word, size_t width, size_t limit, size_t indent)
{
    size_t size = strlen(word), padding = size < width ? width - size : 0;
    if (l->line + padding + size > limit && l->line > indent) {
        while (l->out->size && l->out->data[l->out->size - 1] == ' ')
            l->out->size--;
        buf_putc(l->out, '\n');
        put_indent(l, indent);
    }
    buf_printf(l->out, "%*s%s", (int)padding, "", word);
    l->line += padding + size;
}

static void put_row(struct layout *l, size_t indent, size_t width)
{
    const struct array *a = l->array;
    int axis = a->dimensions - 1;
    l->line = indent; /* brackets of that width precede it */
    for (uint64_t i = 0; i < a->shape[axis]; i++) {
        if (is_left_out(a, axis, i)) {
            put_word(l, "...", 0, width - 1, indent);
            buf_putc(l->out, ' ');
            l->line++;
            i = a->shape[axis] - EDGE_ITEMS;
        }
        put_word(l, l->word, a->width, width - 1, indent);
        l->word += strlen(l->word) + 1;
        if (i + 1 < a->shape[axis]) {
            buf_putc(l->out, ' ');
            l->line++;
        }
    }
}

static void put_axis(struct layout *l, int axis)
{
    const struct array *a = l->array;
    buf_putc(l->out, '[');
    if (axis == a->dimensions - 1) {
        put_row(l, (size_t)axis + 1, LINE_WIDTH - (size_t)axis);
    } else {
        for (uint64_t i = 0; i < a->shape[axis]; i++) {
            if (i > 0) {
                for (int n = axis + 1; n < a->dimensions; n++)
                    buf_putc(l->out, '\n');
                put_indent(l, (size_t)axis + 1);
            }
            if (is_left_out(a, axis, i)) {
                buf_puts(l->out, "...");
                i = a->shape[axis] - EDGE_ITEMS - 1;
                continue;
            }
            put_axis(l, axis + 1);
        }
    }
    buf_putc(l->out, ']');
}

static bool put_array(struct buf *out, struct array *a)
{
    if (!collect_elements(a, 0, 0))
        return false;
    if (!a->ended) /* more elements than the shape states */
        return false;
    struct float_form form;
    if (a->kind == FLOATING) {
        choose_float_form(a, &form);
        for (size_t i = 0; i < a->shown; i++)
            put_float(a, a->values[i], &form);
    }
    if (buf_error(&a->words))
        return false;
    struct layout layout = {.array = a, .word = a->words.data, .out = out};
    put_axis(&layout, 0);
    return true;
}

int tensor_text_put(struct buf *out, const struct triton_tensor *tensor)
{
    _cleanup_(array_clear) struct array a = {.at = tensor->data.at};
    a.end = tensor->data.size ? a.at + tensor->data.size : a.at;
    bool known = find_element_kind(tensor->dtype, &a) && parse_shape(tensor->shape, &a);
    if (known && a.size == 0 && tensor->data.size == 0)
        return buf_puts(out, "[]");
    a.summarised = a.size > SUMMARY_ABOVE;
    if (known && tensor->data.size && a.size <= tensor->data.size && put_array(out, &a))
        return buf_error(out);
    buf_puts(out, "[");
    triton_text_put_shown(out, tensor->data);
    buf_puts(out, "] (");
    triton_text_put_shown(out, tensor->dtype);
    buf_puts(out, " ");
    triton_text_put_shown(out, tensor->shape);
    buf_puts(out, tensor->data.size ? ", as it stands in the file)" : ", no data in the file)");
    return buf_error(out);
}
