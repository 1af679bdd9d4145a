/* The file of tokens, and the Authorization header of a request. */
#include "serve/authorization.h"
#include "serve/tokens.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_header(const char *header)
{
    char token[AUTHORIZATION_TOKEN_BYTES];
    memset(token, 'x', sizeof(token));
    if (authorization_token(header, token) == 0 && (!token[0] || !memchr(token, '\0', sizeof(token))))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tokens tokens;
    char why[TOKENS_WHY_BYTES] = "";
    const int r = tokens_parse((const char *)data, size, &tokens, why);
    if ((r < 0) != (why[0] != '\0') || tokens.count > TOKENS_MAX)
        abort();
    if (r == 0 && tokens.count && tokens_accept(&tokens, "no such token", TOKEN_READ))
        abort();
    char *header = malloc(size + 1);
    if (!header)
        return 0;
    memcpy(header, data, size);
    header[size] = '\0';
    try_header(header);
    free(header);
    return 0;
}
