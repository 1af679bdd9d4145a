/* Formats numbers as the shortest decimal that parses back to the same value, in Python's form ("0.5", "12.0", "1e-05",
 * "1e+16"), and computes quotients of integers with one rounding, so output equals the output of a Python script digit
 * by digit. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

/* The type whose values must be distinguished. */
enum decimal_type { DECIMAL_DOUBLE, DECIMAL_FLOAT, DECIMAL_HALF, DECIMAL_BFLOAT };

/* Rounds `value` to that type. */
double decimal_round(double value, enum decimal_type type);

struct decimal {
    bool negative;
    char digits[24];     /* no trailing zeros, at least one digit; the point follows the first */
    int count, exponent; /* exponent: power of ten */
};

/* Shortest digits that identify `value` among the values of `type`; it must be finite and one of them. */
void decimal_shortest(double value, enum decimal_type type, struct decimal *ret);

/* Appends a double; also "nan", "inf", "-inf". */
void decimal_put(struct buf *out, double value);
/* Appends n / d as Python's `/` of two integers; `d` must not be 0. */
void decimal_put_quotient(struct buf *out, __int128 n, uint64_t d);
