/* SQL over HTTP, as ClickHouse's HTTP interface has it: the query in the parameter `query`, in the body, or in both;
 * the format by FORMAT in the query, by `default_format` or the header X-ClickHouse-Format; /ping. Queries can only
 * read. */
#pragma once

#include "server/engine.h"
#include "server/listener.h"

#define SQL_BODY_MAX_BYTES ((size_t)256 << 10)

/* An answer of listener_options, whose context is the engine. */
enum MHD_Result sql_answer(void *engine, const struct listener_request *request);
/* Replies that a query failed. `error` is that of engine_query, and `out` what the engine said (-EPROTO): "Code: 62.
 * DB::Exception: ...". Leaves `out` empty. */
enum MHD_Result sql_reply_failure(const struct listener_request *request, int error, struct buf *out);
