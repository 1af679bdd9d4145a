/* Shortest decimals and correctly rounded quotients; see decimal.h. */
#include "export/decimal.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Rounds to a type of `bits` mantissa bits, ties to even, with smallest exponent `min_exponent` and largest value
 * `max`. */
static double round_to(double value, int bits, int min_exponent, double max)
{
    int exponent;
    if (value == 0 || !isfinite(value))
        return value;
    frexp(value, &exponent);
    int shift = bits - (exponent < min_exponent ? min_exponent : exponent);
    double rounded = ldexp(nearbyint(ldexp(value, shift)), -shift);
    return fabs(rounded) > max ? copysign(INFINITY, value) : rounded;
}

double decimal_round(double value, enum decimal_type type)
{
    switch (type) {
    case DECIMAL_FLOAT:
        return (float)value;
    case DECIMAL_HALF:
        return round_to(value, 11, -13, 65504);
    case DECIMAL_BFLOAT:
        return round_to(value, 8, -125, 0x1.FEp127);
    case DECIMAL_DOUBLE:
        break;
    }
    return value;
}

void decimal_shortest(double value, enum decimal_type type, struct decimal *ret)
{
    assert(isfinite(value));
    static const int first[] = {15, 6, 1, 1}; /* digits that every type preserves: the search starts there */
    char text[40];
    int precision = fabs(value) < DBL_MIN ? 1 : first[type]; /* subnormals may have a single digit */
    do
        snprintf(text, sizeof(text), "%.*e", precision - 1, fabs(value));
    while (decimal_round(strtod(text, NULL), type) != fabs(value) && ++precision <= 17);
    struct decimal d = {.negative = signbit(value)};
    for (const char *at = text; *at != 'e'; at++)
        if (*at != '.')
            d.digits[d.count++] = *at;
    while (d.count > 1 && d.digits[d.count - 1] == '0')
        d.count--;
    d.digits[d.count] = '\0';
    d.exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    *ret = d;
}

static void put_zeros(struct buf *out, int count)
{
    while (count-- > 0)
        buf_putc(out, '0');
}

void decimal_put(struct buf *out, double value)
{
    struct decimal d;
    if (!isfinite(value)) {
        buf_puts(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    decimal_shortest(value, DECIMAL_DOUBLE, &d);
    if (d.negative)
        buf_putc(out, '-');
    if (d.exponent < -4 || d.exponent >= 16) {
        buf_putc(out, d.digits[0]);
        if (d.count > 1)
            buf_printf(out, ".%s", d.digits + 1);
        buf_printf(out, "e%+03d", d.exponent);
    } else if (d.exponent < 0) {
        buf_puts(out, "0.");
        put_zeros(out, -d.exponent - 1);
        buf_puts(out, d.digits);
    } else if (d.count <= d.exponent + 1) {
        buf_puts(out, d.digits);
        put_zeros(out, d.exponent + 1 - d.count);
        buf_puts(out, ".0");
    } else {
        buf_append(out, d.digits, (size_t)d.exponent + 1);
        buf_printf(out, ".%s", d.digits + d.exponent + 1);
    }
}

/* Computes at least 64 bits of the quotient and a sticky bit for the remainder, so that converting to double rounds
 * once. */
static double divide(unsigned __int128 n, uint64_t d)
{
    int shift = 0;
    while (n && !(n >> 127)) {
        n <<= 1;
        shift++;
    }
    unsigned __int128 quotient = n / d;
    if (n % d)
        quotient |= 1;
    return ldexp((double)quotient, -shift);
}

void decimal_put_quotient(struct buf *out, __int128 n, uint64_t d)
{
    assert(d > 0);
    unsigned __int128 distance = n < 0 ? -(unsigned __int128)n : (unsigned __int128)n;
    if (d == 1000 && distance < (unsigned __int128)1000000000000000) { /* at most 15 digits: the decimal is exact */
        unsigned below = (unsigned)((uint64_t)distance % 1000);
        char digits[4];
        snprintf(digits, sizeof(digits), "%03u", below);
        digits[below % 10 ? 3 : below % 100 ? 2 : 1] = '\0';
        buf_printf(out, "%s%" PRIu64 ".%s", n < 0 ? "-" : "", (uint64_t)distance / 1000, digits);
        return;
    }
    double quotient = divide(distance, d);
    decimal_put(out, n < 0 ? -quotient : quotient);
}
