/* Parses ADDRESS:PORT; see address.h. */
#include "base/address.h"

#include "base/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

int address_parse(const char *text, union address *ret, socklen_t *ret_size)
{
    union address a = {0};
    char host[INET6_ADDRSTRLEN];
    int64_t port;
    const char *colon = strrchr(text, ':');
    if (!colon || units_parse_integer(colon + 1, 0, UINT16_MAX, &port) < 0)
        return -EINVAL;
    const char *start = text;
    size_t size = (size_t)(colon - text);
    bool brackets = size >= 2 && start[0] == '[' && start[size - 1] == ']';
    if (brackets) {
        start++;
        size -= 2;
    }
    if (size >= sizeof(host))
        return -EINVAL;
    memcpy(host, start, size);
    host[size] = '\0';
    if (brackets && inet_pton(AF_INET6, host, &a.v6.sin6_addr) == 1) {
        a.v6.sin6_family = AF_INET6;
        a.v6.sin6_port = htons((uint16_t)port);
        *ret_size = sizeof(a.v6);
    } else if (!brackets && inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1", &a.v4.sin_addr) == 1) {
        a.v4.sin_family = AF_INET;
        a.v4.sin_port = htons((uint16_t)port);
        *ret_size = sizeof(a.v4);
    } else {
        return -EINVAL;
    }
    *ret = a;
    return 0;
}
