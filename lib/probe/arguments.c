/* Argument declarations, and how each type is passed: widened to 64 bits, in the register or stack slot of the C
 * calling convention (probe_site.h). The USDT note states location, size and sign; tracers read the low bytes, which
 * are correct because both CPUs are little-endian. */
#include "arguments.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "site.h"

struct probe_type {
    const char *name;
    int size_bytes; /* negative: signed, as in USDT notes */
    int is_double;
};

static const struct probe_type TYPES[] = {
    {"i8", -1, 0},  {"u8", 1, 0},  {"i16", -2, 0}, {"u16", 2, 0}, {"i32", -4, 0}, {"u32", 4, 0},
    {"i64", -8, 0}, {"u64", 8, 0}, {"ptr", 8, 0},  {"str", 8, 0}, {"f64", 8, 1},
};

static int is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t word_length(const char *text)
{
    size_t length = 0;
    while (is_name_byte(text[length]))
        length++;
    return length;
}

static int word_is_name(const char *text, size_t length)
{
    return length > 0 && length <= SONDE_PROBE_NAME_MAX && !(text[0] >= '0' && text[0] <= '9');
}

int probe_name_is_good(const char *name)
{
    size_t length = word_length(name);
    return word_is_name(name, length) && name[length] == '\0';
}

static const struct probe_type *find_type(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof(TYPES) / sizeof(*TYPES); i++)
        if (strlen(TYPES[i].name) == length && memcmp(TYPES[i].name, text, length) == 0)
            return &TYPES[i];
    return NULL;
}

static const char *skip_spaces(const char *text)
{
    return text + strspn(text, " \t\n");
}

/* Whether an argument of this name is declared already. */
static int is_declared(const char *declaration, const char *name, size_t length)
{
    for (const char *at = declaration; (at = strchr(at, ' ')) != NULL;) {
        at++;
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return 1;
    }
    return 0;
}

/* Parses "TYPE NAME" at *text and advances past it. */
static int parse_one(const char **text, struct probe_arguments *arguments, size_t *used)
{
    size_t type_length = word_length(*text);
    const struct probe_type *type = find_type(*text, type_length);
    if (!type)
        return -EINVAL;
    const char *name = skip_spaces(*text + type_length);
    size_t length = word_length(name);
    if (!word_is_name(name, length) || name == *text + type_length ||
        is_declared(arguments->declaration, name, length)) {
        *text = name;
        return -EINVAL;
    }
    if (arguments->count == SONDE_PROBE_ARGUMENTS_MAX)
        return -E2BIG;
    int written = snprintf(arguments->declaration + *used, sizeof(arguments->declaration) - *used, "%s%s %.*s",
                           arguments->count ? ", " : "", type->name, (int)length, name);
    *used += (size_t)written;
    arguments->doubles |= (unsigned)type->is_double << arguments->count;
    arguments->types[arguments->count++] = type;
    *text = skip_spaces(name + length);
    return 0;
}

int probe_arguments_parse(const char *text, struct probe_arguments *ret_arguments, const char **ret_bad)
{
    struct probe_arguments arguments = {0};
    size_t used = 0;
    int r = 0;
    text = skip_spaces(text ? text : "");
    for (int more = *text != '\0'; more; more = r == 0 && *text != '\0') {
        if (arguments.count > 0 && *text != ',')
            r = -EINVAL;
        else {
            text = arguments.count > 0 ? skip_spaces(text + 1) : text;
            r = parse_one(&text, &arguments, &used);
        }
    }
    if (r < 0) {
        *ret_bad = text;
        return r;
    }
    *ret_arguments = arguments;
    return 0;
}

/* Out-of-range doubles, undefined in C, saturate to the nearest integer; NaN becomes 0. */
static uint64_t integer_of_double(double x, int is_signed)
{
    if (x != x)
        return 0;
    if (is_signed)
        return x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? (uint64_t)INT64_MIN : (uint64_t)(int64_t)x;
    return x >= 0x1p64 ? UINT64_MAX : x < 0 ? 0 : (uint64_t)x;
}

uint64_t probe_arguments_convert(const struct probe_arguments *arguments, unsigned index,
                                 const struct sonde_value *value)
{
    double x;
    if (value->kind != SONDE_VALUE_DOUBLE) {
        x = value->kind == SONDE_VALUE_SIGNED ? (double)(int64_t)value->bits : (double)value->bits;
        return sonde_value_of_double_(x).bits;
    }
    memcpy(&x, &value->bits, sizeof(x));
    return integer_of_double(x, arguments->types[index]->size_bytes < 0);
}

size_t probe_arguments_describe(const struct probe_arguments *arguments, char *out, size_t size)
{
    size_t used = 0;
    if (size > 0)
        out[0] = '\0';
    for (unsigned i = 0; i < arguments->count; i++) {
        char operand[PROBE_OPERAND_MAX];
        probe_site_operand(i, operand);
        int written = snprintf(used < size ? out + used : NULL, used < size ? size - used : 0, "%s%d@%s", i ? " " : "",
                               arguments->types[i]->size_bytes, operand);
        used += (size_t)written;
    }
    return used;
}
