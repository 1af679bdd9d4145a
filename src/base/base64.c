/* Base64; see base64.h. */
#include "base/base64.h"

#include <errno.h>

void base64_put(struct buf *out, const void *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t three =
            (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
        const char four[4] = {digits[three >> 18], digits[three >> 12 & 63], left > 1 ? digits[three >> 6 & 63] : '=',
                              left > 2 ? digits[three & 63] : '='};
        buf_append(out, four, sizeof(four));
    }
}

static int digit_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+' || c == '-' ? 62
           : c == '/' || c == '_' ? 63
                                  : -1;
}

int base64_get(struct buf *to, const char *text, size_t size)
{
    uint32_t bits = 0;
    while (size && text[size - 1] == '=')
        size--;
    for (size_t i = 0; i < size; i++) {
        const int value = digit_value(text[i]);
        if (value < 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4)
            buf_putc(to, (char)(bits >> (6 - i % 4 * 2)));
    }
    return size % 4 == 1 ? -EINVAL : buf_error(to);
}
