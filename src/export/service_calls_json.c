/* See service_calls_json.h. */
#include "export/service_calls_json.h"

#include <inttypes.h>

static void put_text(const char *begin, const char *text, struct buf *out)
{
    buf_puts(out, begin);
    buf_put_json_string(out, text);
}

static void put_call(const struct service_call *c, struct buf *out)
{
    put_text("{\"client\":", c->client, out);
    put_text(",\"server\":", c->server, out);
    put_text(",\"address\":", c->address, out);
    put_text(",\"protocol\":", c->protocol, out);
    buf_printf(out, ",\"calls\":%" PRIu64 ",\"calls_per_second\":%.3f,\"failed\":%" PRIu64, c->calls,
               c->calls_per_second, c->failed);
    buf_printf(out, ",\"wait_ns\":%" PRIu64 ",\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 ",\"kinds\":[", c->wait_ns,
               c->p50_ns, c->p99_ns);
    for (size_t i = 0; i < c->kind_count; i++) {
        put_text(i ? ",{\"kind\":" : "{\"kind\":", c->kinds[i].name, out);
        buf_printf(out, ",\"calls\":%" PRIu64 ",\"wait_ns\":%" PRIu64 "}", c->kinds[i].calls, c->kinds[i].wait_ns);
    }
    buf_puts(out, "]}");
}

int service_calls_json_write(const struct service_call *calls, size_t count, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < count; i++) {
        buf_puts(out, i ? ",\n" : "");
        put_call(&calls[i], out);
    }
    buf_putc(out, ']');
    return buf_error(out);
}
