/* Parses host names with ports; see host_name.h. */
#include "base/host_name.h"

#include "base/units.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

static int parse_port(const char *text, uint16_t *ret)
{
    int64_t port;
    for (const char *c = text; *c; c++)
        if (!isdigit((unsigned char)*c))
            return -EINVAL;
    if (units_parse_integer(text, 1, UINT16_MAX, &port) < 0)
        return -EINVAL;
    *ret = (uint16_t)port;
    return 0;
}

/* Letters, digits, '-', '_' and '.'; a final dot is dropped. */
static int copy_name(const char *text, size_t size, char ret[HOST_NAME_MAX_BYTES])
{
    if (size > 0 && text[size - 1] == '.')
        size--;
    if (size == 0 || size >= HOST_NAME_MAX_BYTES)
        return -EINVAL;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x80 || !(isalnum(c) || c == '-' || c == '_' || c == '.'))
            return -EINVAL;
        ret[i] = (char)tolower(c);
    }
    ret[size] = '\0';
    return 0;
}

static int parse_ipv6(const char *text, size_t size, struct host_name *host)
{
    struct in6_addr address;
    if (size >= sizeof(host->name))
        return -EINVAL;
    memcpy(host->name, text, size);
    host->name[size] = '\0';
    if (inet_pton(AF_INET6, host->name, &address) != 1 ||
        !inet_ntop(AF_INET6, &address, host->name, sizeof(host->name))) /* normalized spelling */
        return -EINVAL;
    host->address = true;
    host->loopback = IN6_IS_ADDR_LOOPBACK(&address);
    return 0;
}

static int parse_name_or_ipv4(const char *text, size_t size, struct host_name *host)
{
    struct in_addr address;
    int r = copy_name(text, size, host->name);
    if (r < 0)
        return r;
    if (inet_pton(AF_INET, host->name, &address) == 1) {
        host->address = true;
        host->loopback = (ntohl(address.s_addr) >> 24) == IN_LOOPBACKNET;
    } else {
        host->loopback = strcmp(host->name, "localhost") == 0;
    }
    return 0;
}

int host_name_parse(const char *text, struct host_name *ret)
{
    struct host_name host = {0};
    const char *end;
    int r;
    if (text[0] == '[') {
        end = strchr(text, ']');
        if (!end)
            return -EINVAL;
        r = parse_ipv6(text + 1, (size_t)(end - text) - 1, &host);
        end++;
    } else {
        end = text + strcspn(text, ":");
        r = parse_name_or_ipv4(text, (size_t)(end - text), &host);
    }
    if (r < 0)
        return r;
    if (*end == ':')
        r = parse_port(end + 1, &host.port);
    else if (*end)
        r = -EINVAL;
    if (r < 0)
        return r;
    *ret = host;
    return 0;
}

int host_name_next(const char **list, struct host_name *ret)
{
    char entry[HOST_NAME_MAX_BYTES + 8];
    const char *start = *list + strspn(*list, " \t");
    size_t size = strcspn(start, ",");
    if (!*start)
        return 0;
    *list = start + size + (start[size] == ',');
    while (size > 0 && (start[size - 1] == ' ' || start[size - 1] == '\t'))
        size--;
    if (size >= sizeof(entry))
        return -EINVAL;
    memcpy(entry, start, size);
    entry[size] = '\0';
    int r = host_name_parse(entry, ret);
    return r < 0 ? r : 1;
}
