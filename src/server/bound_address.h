/* An address on which the server listens, with the rule for it: other machines reach it only with a token. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bound_address {
    int fd; /* listens; non-blocking */
    uint16_t port;
    bool is_local; /* only programs of this machine reach it */
};

/* `option`: the option that sets the address, for messages; `text`: "127.0.0.1:4318". 0, or -errno after the reason was
 * logged. The caller closes the descriptor. */
int bound_address_open(const char *option, const char *text, bool needs_token, struct bound_address *ret);
