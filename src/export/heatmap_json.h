/* The heatmap as the page reads it (docs/page.md). */
#pragma once

#include "base/buf.h"
#include "model/heatmap.h"

int heatmap_json_write(const struct heatmap *h, struct buf *out);
