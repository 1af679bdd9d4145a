/* Numbers with units; see units.h. */
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    double factor;
};

/* Parses a non-negative decimal number and one of `units` (the one named "" is the default). */
static int parse_number_with_unit(const char *text, const struct unit *units, double *ret)
{
    if (!isdigit((unsigned char)text[0]))
        return -EINVAL; /* strtod would accept signs, blanks, "inf", hexadecimal */
    size_t digits = strspn(text, "0123456789.");
    char number[64];
    if (digits >= sizeof(number))
        return -EINVAL;
    memcpy(number, text, digits);
    number[digits] = '\0';
    char *end;
    double value = strtod(number, &end);
    if (*end)
        return -EINVAL;
    const char *unit = text + digits;
    while (*unit == ' ')
        unit++;
    for (; units->name; units++)
        if (strcmp(unit, units->name) == 0) {
            *ret = value * units->factor;
            return *ret < 9.2e18 ? 0 : -ERANGE;
        }
    return -EINVAL;
}

int units_parse_duration_ns(const char *text, uint64_t *ret_ns)
{
    static const struct unit units[] = {{"", 1e9},   {"ns", 1},     {"us", 1e3},   {"ms", 1e6}, {"s", 1e9},
                                        {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {0}};
    double value;
    int r = parse_number_with_unit(text, units, &value);
    if (r == 0)
        *ret_ns = llround(value); /* 0.29 s is exactly 290000000 ns, in spite of the product's rounding error */
    return r;
}

int units_parse_size_bytes(const char *text, uint64_t *ret_bytes)
{
    static const struct unit units[] = {
        {"", 1},     {"B", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {"kB", 1000}, {"MB", 1000000},
        {"GB", 1e9}, {0}};
    double value;
    int r = parse_number_with_unit(text, units, &value);
    if (r == 0)
        *ret_bytes = llround(value);
    return r;
}

int units_parse_percent(const char *text, double *ret_share)
{
    static const struct unit units[] = {{"%", 0.01}, {0}};
    double value;
    int r = parse_number_with_unit(text, units, &value);
    if (r == 0)
        *ret_share = value;
    return r;
}

int units_parse_integer(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    if (!isdigit((unsigned char)text[0]) && text[0] != '-')
        return -EINVAL;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end || end == text)
        return -EINVAL;
    if (errno || value < min || value > max)
        return -ERANGE;
    *ret = value;
    return 0;
}

static const char *format_scaled(double value, const struct unit *units, char *out, size_t size)
{
    /* Selects the unit by the rounded value: 999.9 us is 1.00 ms, not 1000 us. */
    while (units[1].name && round(value / units->factor) >= units[1].factor / units->factor)
        units++;
    value /= units->factor;
    int decimals = units->factor == 1 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(out, size, "%.*f %s", decimals, value, units->name);
    return out;
}

const char *units_format_duration(uint64_t ns, char *out, size_t size)
{
    static const struct unit units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {0}};
    return format_scaled(ns, units, out, size);
}

const char *units_format_size(uint64_t bytes, char *out, size_t size)
{
    static const struct unit units[] = {{"B", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {0}};
    return format_scaled(bytes, units, out, size);
}

const char *units_format_count(uint64_t count, char *out, size_t size)
{
    char digits[24];
    const int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
    size_t used = 0;
    for (int i = 0; i < length && used + 2 < size; i++) {
        if (i && (length - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}
