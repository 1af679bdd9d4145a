/* The first query of clickhouse-go over HTTP, which Grafana's data source for ClickHouse uses. Such a client names the
 * version of the Native format that it reads (client_protocol_version). The engine, as a library, writes version 0
 * only, without the headers of later ones. This answer has those headers, and reports version 0, which the client then
 * reads in all further answers. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the text is that query. */
bool native_hello_is(const char *sql, size_t size);
/* Appends the answer for a client that reads the version `revision`. */
void native_hello_put(struct buf *out, uint64_t revision, const char *engine_version);
