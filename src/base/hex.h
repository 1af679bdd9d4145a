/* Hexadecimal digits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The value of a digit of either case; -1: not a digit. */
static inline int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Writes the bytes as 2 * `count` digits in lower case, and a terminator. */
static inline void hex_write(const uint8_t *bytes, size_t count, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret[2 * count] = '\0';
}
