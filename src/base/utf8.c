/* UTF-8; see utf8.h. */
#include "base/utf8.h"

static bool continues(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

size_t utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text; /* a NUL fails every test, so nothing after it is read */
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xC2 && s[0] <= 0xDF)
        return continues(s[1]) ? 2 : 0;
    if (s[0] >= 0xE0 && s[0] <= 0xEF) {
        unsigned char low = s[0] == 0xE0 ? 0xA0 : 0x80, high = s[0] == 0xED ? 0x9F : 0xBF;
        return s[1] >= low && s[1] <= high && continues(s[2]) ? 3 : 0;
    }
    if (s[0] >= 0xF0 && s[0] <= 0xF4) {
        unsigned char low = s[0] == 0xF0 ? 0x90 : 0x80, high = s[0] == 0xF4 ? 0x8F : 0xBF;
        return s[1] >= low && s[1] <= high && continues(s[2]) && continues(s[3]) ? 4 : 0;
    }
    return 0;
}

bool utf8_is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

uint32_t utf8_decode(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    switch (utf8_length(text)) {
    case 1:
        return s[0];
    case 2:
        return (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
    case 3:
        return (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    case 4:
        return (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
    default:
        return 0xFFFD;
    }
}

bool utf8_at_control(const char *text)
{
    return *text && utf8_is_control(utf8_decode(text));
}

size_t utf8_put(uint32_t c, char *out)
{
    return utf8_encode(utf8_is_control(c) ? '?' : c, out);
}

size_t utf8_encode(uint32_t c, char *out)
{
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

size_t utf8_count(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += !continues((unsigned char)text[i]);
    return count;
}

const char *utf8_skip(const char *text, size_t count)
{
    for (; *text && (count || continues((unsigned char)*text)); text++)
        count -= !continues((unsigned char)*text);
    return text;
}
