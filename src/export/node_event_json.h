/* One event as a JSON object: {"time_unix_nano","duration_ns","name","text","attributes":{name: value}}. Documented in
 * docs/page.md. */
#pragma once

#include "base/buf.h"
#include "model/node_event.h"

/* `unix_ns`: the event's time since 1970. Errors are the buffer's. */
void node_event_json_write(const struct node_event *event, uint64_t unix_ns, struct buf *out);
