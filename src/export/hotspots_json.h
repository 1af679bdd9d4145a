/* Functions over time as the page reads them (docs/page.md). */
#pragma once

#include "base/buf.h"
#include "model/hotspots.h"

int hotspots_json_write(const struct hotspots *h, struct buf *out);
