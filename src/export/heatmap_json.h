/* JSON of the heatmap, read by the page (docs/page.md). 0, or the buffer's error. */
#pragma once

#include "base/buf.h"
#include "model/heatmap.h"

int heatmap_json_write(const struct heatmap *h, struct buf *out);
