/* The token in an Authorization header; see authorization.h. */
#include "serve/authorization.h"

#include "base/base64.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define CREDENTIALS_BYTES 384 /* user, colon and password */

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
    _cleanup_buf_ struct buf credentials = {.max_bytes = CREDENTIALS_BYTES};
    text = after_scheme(header, "Basic", &size);
    if (!text || base64_get(&credentials, text, size) < 0 || !credentials.size ||
        memchr(credentials.data, '\0', credentials.size))
        return -EINVAL;
    const char *colon = memchr(credentials.data, ':', credentials.size);
    return colon ? copy_token(colon + 1, strlen(colon + 1), ret) : -EINVAL;
}
