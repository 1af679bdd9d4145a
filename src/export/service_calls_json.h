/* Calls between services as the JSON array of `sonde calls --json` and /api/v1/calls, documented in docs/page.md. */
#pragma once

#include "base/buf.h"
#include "model/service_call.h"

/* 0, or the buffer's error. */
int service_calls_json_write(const struct service_call *calls, size_t count, struct buf *out);
