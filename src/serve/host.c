/* The check of the Host header; see host.h. */
#include "serve/host.h"

#include "base/host_name.h"

#include <string.h>

static uint16_t default_port(const struct host_policy *policy)
{
    return policy->is_encrypted ? 443 : 80;
}

static bool is_listed(const struct host_policy *policy, const struct host_name *host)
{
    const char *allowed = policy->allowed;
    struct host_name entry;
    int r = 1;
    while (allowed && r) {
        r = host_name_next(&allowed, &entry);
        if (r > 0 && strcmp(entry.name, host->name) == 0 &&
            (!entry.port || entry.port == (host->port ? host->port : default_port(policy))))
            return true;
    }
    return false;
}

/* Compares with the full name and with its first label ("node-3" of "node-3.example.org"). */
static bool is_node(const char *node_name, const char *name)
{
    struct host_name own;
    if (!node_name || host_name_parse(node_name, &own) < 0)
        return false;
    if (strcmp(own.name, name) == 0)
        return true;
    own.name[strcspn(own.name, ".")] = '\0';
    return own.name[0] && strcmp(own.name, name) == 0;
}

bool host_allowed(const struct host_policy *policy, const char *header)
{
    struct host_name host;
    if (host_name_parse(header, &host) < 0)
        return false;
    if (is_listed(policy, &host))
        return true;
    if ((host.port ? host.port : default_port(policy)) != policy->port)
        return false;
    if (host.loopback)
        return true;
    return !policy->loopback_only && (host.address || is_node(policy->node_name, host.name));
}
