/* The request line, made safe to show and to count by: identifiers become {id}, the query is dropped (it may hold
 * secrets). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ROUTE_METHOD_MAX 16
#define ROUTE_MAX        200

struct route {
    char method[ROUTE_METHOD_MAX];
    char path[ROUTE_MAX];
};

/* `line`: the first `bytes` of a request, not more than its line needs to be there. False: not a line of HTTP/1.
 * `replied`: an HTTP server answered, so that it is a request even if its line is bad (most such replies are 400). */
bool route_parse(const char *line, size_t bytes, bool replied, struct route *ret);
