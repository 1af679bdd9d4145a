/* See attribute_list.h. */
#include "model/attribute_list.h"

#include "base/hex.h"

#include <string.h>

/* Copies without spaces around. False: it is too long, or has a control character. */
static bool copy_trimmed(char *out, size_t size, const char *text, size_t bytes)
{
    while (bytes && *text == ' ') {
        text++;
        bytes--;
    }
    while (bytes && text[bytes - 1] == ' ')
        bytes--;
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20)
            return false;
    if (bytes >= size)
        return false;
    memcpy(out, text, bytes);
    out[bytes] = '\0';
    return true;
}

/* False: a % without two digits, or a decoded NUL. */
static bool decode(char *text)
{
    char *out = text;
    for (const char *at = text; *at; at++, out++) {
        *out = *at;
        if (*at != '%')
            continue;
        const int high = hex_value(at[1]), low = high < 0 ? -1 : hex_value(at[2]);
        if (low < 0 || !(high << 4 | low))
            return false;
        *out = (char)(high << 4 | low);
        at += 2;
    }
    *out = '\0';
    return true;
}

/* 0: the end; -1: invalid. */
static int next_pair(const char **at, char name[ATTRIBUTE_LIST_NAME_BYTES], char value[ATTRIBUTE_LIST_VALUE_BYTES])
{
    if (!**at)
        return 0;
    const size_t bytes = strcspn(*at, ",");
    const char *equals = memchr(*at, '=', bytes);
    if (!equals || !copy_trimmed(name, ATTRIBUTE_LIST_NAME_BYTES, *at, (size_t)(equals - *at)) || !name[0] ||
        !copy_trimmed(value, ATTRIBUTE_LIST_VALUE_BYTES, equals + 1, bytes - (size_t)(equals + 1 - *at)) ||
        !decode(value))
        return -1;
    *at += bytes + ((*at)[bytes] == ',');
    return 1;
}

bool attribute_list_is_valid(const char *list)
{
    char name[ATTRIBUTE_LIST_NAME_BYTES], value[ATTRIBUTE_LIST_VALUE_BYTES];
    int r = 1;
    for (int pairs = 0; (r = next_pair(&list, name, value)) > 0; pairs++)
        if (pairs == ATTRIBUTE_LIST_MAX)
            return false;
    return r == 0;
}

bool attribute_list_next(const char **at, char name[ATTRIBUTE_LIST_NAME_BYTES], char value[ATTRIBUTE_LIST_VALUE_BYTES])
{
    return next_pair(at, name, value) > 0;
}
