/* Coverage as a JSON object, documented in docs/why.md: a member of every answer about requests and events. */
#pragma once

#include "base/buf.h"
#include "model/coverage.h"

/* Appends {"asked_seconds","observed_seconds","nothing","gaps":[{"reason","seconds","text"}]}, and for requests
 * "opaque_ports":[{"port","service","protocol","bytes_per_second","connections"}], "opaque_ports_omitted". */
void coverage_json_put(const struct coverage *c, enum coverage_subject subject, struct buf *out);

/* Begins an answer: appends {"coverage":{...},"`list`": The caller appends the list and the closing brace. */
void coverage_json_begin(const struct coverage *c, enum coverage_subject subject, const char *list, struct buf *out);
