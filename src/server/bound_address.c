/* The addresses of the server; see bound_address.h. */
#include "server/bound_address.h"

#include "base/address.h"
#include "base/log.h"

#include <errno.h>

int bound_address_open(const char *option, const char *text, bool needs_token, struct bound_address *ret)
{
    union address address;
    socklen_t size;
    if (address_parse(text, &address, &size) < 0) {
        log_error("%s: '%s' is not ADDRESS:PORT, such as 127.0.0.1:7000 or [::1]:7000", option, text);
        return -EINVAL;
    }
    if (!address_is_loopback(&address) && !needs_token) {
        log_error("%s: %s can be reached by other machines, whose clients need tokens", option, text);
        return -EINVAL;
    }
    const int r = address_listen(&address, size, &ret->fd);
    if (r < 0)
        return log_errno(r, "cannot listen on %s (%s chooses another address)", text, option);
    ret->port = ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
    ret->is_local = address_is_loopback(&address);
    return 0;
}
