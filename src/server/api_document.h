/* The OpenAPI 3.1 document of the JSON API, made of the table of its endpoints (api_endpoints.h). */
#pragma once

#include "base/buf.h"
#include "server/api_endpoints.h"

#define API_DOCUMENT_PATH API_PATH "openapi.json"

/* Appends the document. 0, or the buffer's error. */
int api_document_put(struct buf *out);
