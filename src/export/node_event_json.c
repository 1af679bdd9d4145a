/* See node_event_json.h. */
#include "export/node_event_json.h"

#include <inttypes.h>

void node_event_json_write(const struct node_event *event, uint64_t unix_ns, struct buf *out)
{
    buf_printf(out, "{\"time_unix_nano\":%" PRIu64 ",\"duration_ns\":%" PRIu64 ",\"name\":", unix_ns,
               event->duration_ns);
    buf_put_json_string(out, event->name);
    buf_puts(out, ",\"text\":");
    buf_put_json_string(out, event->text);
    buf_puts(out, ",\"attributes\":{");
    for (size_t i = 0; i < event->attribute_count; i++) {
        buf_puts(out, i ? "," : "");
        buf_put_json_string(out, event->attributes[i].name);
        buf_putc(out, ':');
        buf_put_json_string(out, event->attributes[i].value);
    }
    buf_puts(out, "}}");
}
