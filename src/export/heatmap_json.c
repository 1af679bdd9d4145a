/* The heatmap as JSON; see heatmap_json.h. A second has two arrays of fifty values. A second whose samples are no
 * longer kept by slot has none, which distinguishes it from an idle second. */
#include "export/heatmap_json.h"

#include <inttypes.h>

#define MS UINT64_C(1000000)

static void put_second(struct buf *out, const struct heatmap_second *second)
{
    if (!second->kept) {
        buf_puts(out, "{\"kept\":false}");
        return;
    }
    buf_puts(out, "{\"kept\":true,\"samples\":[");
    for (int i = 0; i < HEATMAP_SLOTS_PER_SECOND; i++)
        buf_printf(out, "%s%" PRIu64, i ? "," : "", second->cells[i].count);
    buf_puts(out, "],\"weights_ns\":[");
    for (int i = 0; i < HEATMAP_SLOTS_PER_SECOND; i++)
        buf_printf(out, "%s%" PRIu64, i ? "," : "", second->cells[i].value);
    buf_puts(out, "]}");
}

int heatmap_json_write(const struct heatmap *h, struct buf *out)
{
    buf_printf(out,
               "{\"start_ms\":%" PRIu64 ",\"start_unix_ms\":%" PRIu64 ",\"now_ms\":%" PRIu64 ",\"slot_ms\":%" PRIu64
               ",\"period_ns\":%" PRIu64 ",\"seconds\":[",
               h->start_ns / MS, h->start_unix_ns / MS, h->now_ns / MS, (uint64_t)(HEATMAP_SLOT_NS / MS), h->period);
    for (uint32_t i = 0; i < h->second_count && !buf_error(out); i++) {
        buf_puts(out, i ? ",\n" : "\n");
        put_second(out, &h->seconds[i]);
    }
    buf_puts(out, "]}\n");
    return buf_error(out);
}
