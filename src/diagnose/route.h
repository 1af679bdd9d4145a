/* Request lines, normalised for display and as metric labels: identifiers become {id}, the query is removed (it may
 * contain secrets). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ROUTE_METHOD_MAX 16
#define ROUTE_MAX        200

struct route {
    char method[ROUTE_METHOD_MAX];
    char path[ROUTE_MAX];
};

/* Parses `line`, the first `bytes` of a request, which may be cut within the line. False: not an HTTP/1 request
 * line. `replied`: an HTTP server has replied, so a malformed line counts as a request as well (most such replies
 * are 400). */
bool route_parse(const char *line, size_t bytes, bool replied, struct route *ret);

/* The same for the line of a request over HTTP/2 (request_record.line): "POST /path HTTP/2". `is_grpc`: its path is the
 * name of a method, which stays as it is, and the model follows: "/inference.GRPCInferenceService/ModelInfer resnet:2".
 * An unknown method or path is "*". */
bool route_parse_http2(const char *line, size_t bytes, bool is_grpc, struct route *ret);
