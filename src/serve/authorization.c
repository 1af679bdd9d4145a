/* The token in an Authorization header; see authorization.h. */
#include "serve/authorization.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define CREDENTIALS_BYTES 384 /* user, colon and password */

static int base64_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static int decode_base64(const char *text, size_t size, char ret[CREDENTIALS_BYTES])
{
    uint32_t bits = 0;
    unsigned count = 0;
    size_t used = 0;
    while (size && text[size - 1] == '=')
        size--;
    for (size_t i = 0; i < size; i++) {
        const int value = base64_value(text[i]);
        if (value < 0 || used == CREDENTIALS_BYTES - 1)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            ret[used++] = (char)(bits >> count & 0xff);
        }
    }
    ret[used] = '\0';
    return strlen(ret) == used ? 0 : -EINVAL;
}

/* The credentials after the scheme, without blanks around them; NULL: another scheme. */
static const char *after_scheme(const char *header, const char *scheme, size_t *ret_size)
{
    const size_t length = strlen(scheme);
    if (strncasecmp(header, scheme, length) != 0 || header[length] != ' ')
        return NULL;
    header += length + strspn(header + length, " ");
    *ret_size = strcspn(header, " \t");
    return header[*ret_size + strspn(header + *ret_size, " \t")] ? NULL : header;
}

static int copy_token(const char *text, size_t size, char ret[AUTHORIZATION_TOKEN_BYTES])
{
    if (size == 0 || size >= AUTHORIZATION_TOKEN_BYTES)
        return -EINVAL;
    memcpy(ret, text, size);
    ret[size] = '\0';
    return 0;
}

int authorization_token(const char *header, char ret[AUTHORIZATION_TOKEN_BYTES])
{
    size_t size;
    const char *text = after_scheme(header, "Bearer", &size);
    if (text)
        return copy_token(text, size, ret);
    char credentials[CREDENTIALS_BYTES];
    text = after_scheme(header, "Basic", &size);
    if (!text || decode_base64(text, size, credentials) < 0)
        return -EINVAL;
    const char *colon = strchr(credentials, ':');
    return colon ? copy_token(colon + 1, strlen(colon + 1), ret) : -EINVAL;
}
