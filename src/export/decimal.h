/* Numbers as the shortest decimal that reads back the same, in Python's form ("0.5", "12.0", "1e-05", "1e+16"), and
 * quotients of integers rounded once: what makes a figure the same, digit for digit, as the one that a script in Python
 * prints. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

/* What reads back the same: a value of which type. */
enum decimal_type { DECIMAL_DOUBLE, DECIMAL_FLOAT, DECIMAL_HALF, DECIMAL_BFLOAT };

/* `value` as it is when kept in that type. */
double decimal_round(double value, enum decimal_type type);

struct decimal {
    bool negative;
    char digits[24];     /* no zeros at the end, at least one digit; the first stands before the point */
    int count, exponent; /* of ten */
};

/* Of a finite value. */
void decimal_shortest(double value, enum decimal_type type, struct decimal *ret);

void decimal_put(struct buf *out, double value);
/* n / d, d > 0, as Python's `/` of two integers. */
void decimal_put_quotient(struct buf *out, __int128 n, uint64_t d);
