/* The check of the Host header; see host.h. */
#include "serve/host.h"

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

/* Letters, digits, '-', '_' and '.', as names of hosts have them; a final dot is dropped. */
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
    if (inet_pton(AF_INET6, host->name, &address) != 1)
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

int host_parse(const char *header, struct host_name *ret)
{
    struct host_name host = {0};
    const char *end;
    int r;
    if (header[0] == '[') {
        end = strchr(header, ']');
        if (!end)
            return -EINVAL;
        r = parse_ipv6(header + 1, (size_t)(end - header) - 1, &host);
        end++;
    } else {
        end = header + strcspn(header, ":");
        r = parse_name_or_ipv4(header, (size_t)(end - header), &host);
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

static bool listed(const char *allowed, const struct host_name *host)
{
    char item[HOST_NAME_MAX_BYTES + 8];
    while (allowed && *allowed) {
        allowed += strspn(allowed, ", \t");
        size_t size = strcspn(allowed, ", \t");
        struct host_name entry;
        if (size > 0 && size < sizeof(item)) {
            memcpy(item, allowed, size);
            item[size] = '\0';
            if (host_parse(item, &entry) == 0 && strcmp(entry.name, host->name) == 0 &&
                (!entry.port || entry.port == (host->port ? host->port : 80)))
                return true;
        }
        allowed += size;
    }
    return false;
}

/* "node-3.example.org" is also called "node-3". */
static bool is_node(const char *node_name, const char *name)
{
    char own[HOST_NAME_MAX_BYTES];
    if (!node_name || copy_name(node_name, strlen(node_name), own) < 0)
        return false;
    if (strcmp(own, name) == 0)
        return true;
    own[strcspn(own, ".")] = '\0';
    return own[0] && strcmp(own, name) == 0;
}

bool host_allowed(const struct host_policy *policy, const char *header)
{
    struct host_name host;
    if (host_parse(header, &host) < 0)
        return false;
    if (listed(policy->allowed, &host))
        return true;
    if ((host.port ? host.port : 80) != policy->port)
        return false;
    if (host.loopback)
        return true;
    return !policy->loopback_only && (host.address || is_node(policy->node_name, host.name));
}
