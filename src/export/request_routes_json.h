/* Routes as the JSON array of `sonde requests --json` and /api/v1/routes, documented in docs/why.md. */
#pragma once

#include "base/buf.h"
#include "model/request_route.h"

/* 0, or the buffer's error. */
int request_routes_json_write(const struct request_route *routes, size_t count, struct buf *out);

/* Appends ,"status":503 or, for a gRPC call, ,"status":200,"grpc_status":14 (null: not known). */
void request_status_json_put(uint16_t status, struct buf *out);

/* Appends {"requests","lost_ns","estimated"}. */
void request_group_json_put(const struct request_group *group, struct buf *out);

/* Appends {"requests","p50_ns","p99_ns","explained","parts":[{"kind","p50_ns","p99_ns"}]}; unknown members are left
 * out. */
void request_usual_json_put(const struct request_usual *usual, struct buf *out);
