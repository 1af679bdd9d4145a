/* Functions over time as JSON; see hotspots_json.h. Every row has one value per window. With total time, rows overlap,
 * so `others_ns` is omitted. */
#include "export/hotspots_json.h"

#include <inttypes.h>

#define MS UINT64_C(1000000)

static void put_window(struct buf *out, const struct hotspots_window *w)
{
    buf_printf(out, "{\"from_ms\":%" PRIu64 ",\"to_ms\":%" PRIu64 ",\"duration_ns\":%" PRIu64 ",\"weight_ns\":%" PRIu64,
               w->start_ns / MS, w->end_ns / MS, w->duration_ns, w->value);
}

static void put_row(struct buf *out, const struct hotspots *h, const struct hotspot *row)
{
    buf_puts(out, "{\"name\":");
    buf_put_json_string(out, row->function);
    buf_printf(out, ",\"kind\":\"%s\",\"mapping\":", frame_kind_name(row->kind));
    buf_put_json_string(out, row->mapping);
    buf_printf(out, ",\"weight_ns\":%" PRIu64 ",\"weights_ns\":[", row->value);
    for (uint32_t i = 0; i < h->window_count; i++)
        buf_printf(out, "%s%" PRIu64, i ? "," : "", row->values[i]);
    buf_puts(out, "]}");
}

int hotspots_json_write(const struct hotspots *h, struct buf *out)
{
    const uint64_t start_ns = h->window_count ? h->windows[0].start_ns : 0;
    buf_printf(out,
               "{\"start_ms\":%" PRIu64 ",\"start_unix_ms\":%" PRIu64 ",\"now_ms\":%" PRIu64 ",\"period_ns\":%" PRIu64
               ",\"by\":\"%s\",\"order\":\"%s\",\"functions\":%" PRIu32 ",\"dropped\":%" PRIu64 ",\"windows\":[",
               start_ns / MS, h->start_unix_ns / MS, h->now_ns / MS, h->period, h->options.total ? "total" : "self",
               h->options.by_change ? "change" : "most", h->function_count, h->dropped);
    for (uint32_t i = 0; i < h->window_count; i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_window(out, &h->windows[i]);
        if (!h->options.total)
            buf_printf(out, ",\"others_ns\":%" PRIu64, h->windows[i].others);
        buf_putc(out, '}');
    }
    buf_puts(out, "],\"rows\":[");
    for (uint32_t i = 0; i < h->row_count && !buf_error(out); i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_row(out, h, &h->rows[i]);
    }
    buf_puts(out, "]}\n");
    return buf_error(out);
}
