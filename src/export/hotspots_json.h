/* JSON of functions over time, read by the page (docs/page.md). 0, or the buffer's error. */
#pragma once

#include "base/buf.h"
#include "model/hotspots.h"

int hotspots_json_write(const struct hotspots *h, struct buf *out);
