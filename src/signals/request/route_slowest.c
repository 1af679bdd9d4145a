/* See route_slowest.h. */
#include "signals/request/route_slowest.h"

#include "diagnose/request.h"
#include "diagnose/route.h"

#include <linux/types.h>

#include "probes/request.h"

#include <string.h>

#define PERIOD_NS  10000000000
#define FNV_OFFSET 14695981039346656037u
#define FNV_PRIME  1099511628211u

static uint64_t hash_text(uint64_t hash, const char *text, size_t max)
{
    for (size_t i = 0; i < max && text[i]; i++)
        hash = (hash ^ (unsigned char)text[i]) * FNV_PRIME;
    return (hash ^ '\n') * FNV_PRIME;
}

uint64_t route_slowest_key(const struct request_record *record)
{
    struct route route = {0};
    if (record->line_bytes)
        (void)diagnose_route(record, &route);
    uint64_t hash = hash_text(FNV_OFFSET, record->comm, sizeof(record->comm));
    hash = hash_text(hash, route.method, sizeof(route.method));
    return hash_text(hash, route.path, sizeof(route.path)) | 1;
}

static size_t place_of(uint64_t route)
{
    return (route >> 32) % ROUTE_SLOWEST_ROUTES;
}

/* The route as of `now_ns`, in its place or not. */
static struct route_longest as_of(const struct route_slowest *s, uint64_t route, uint64_t now_ns)
{
    const struct route_longest *known = &s->routes[place_of(route)];
    struct route_longest now = {.route = route, .period = now_ns / PERIOD_NS};
    if (known->route != route)
        return now;
    if (known->period == now.period)
        return *known;
    now.longest_before_ns = known->period + 1 == now.period ? known->longest_ns : 0;
    return now;
}

bool route_slowest_is(const struct route_slowest *s, uint64_t route, uint64_t duration_ns, uint64_t now_ns)
{
    const struct route_longest known = as_of(s, route, now_ns);
    return duration_ns > known.longest_ns && duration_ns > known.longest_before_ns;
}

void route_slowest_add(struct route_slowest *s, uint64_t route, uint64_t duration_ns, uint64_t now_ns)
{
    struct route_longest known = as_of(s, route, now_ns);
    known.longest_ns = duration_ns > known.longest_ns ? duration_ns : known.longest_ns;
    s->routes[place_of(route)] = known;
}
