/* The token in an Authorization header: "Bearer TOKEN", or HTTP Basic with the token as the password, which browsers
 * ask for and every client knows. Pure; the header is untrusted. */
#pragma once

#define AUTHORIZATION_TOKEN_BYTES 256

/* 0 with the token; -EINVAL: another scheme, no token, or one that is too long. */
int authorization_token(const char *header, char ret[AUTHORIZATION_TOKEN_BYTES]);
