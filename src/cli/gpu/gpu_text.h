/* Tables of `sonde gpu`. */
#pragma once

#include "base/buf.h"
#include "signals/gpu/gpu_state.h"

/* Appends the devices and their processes. What is not known is "-". */
void gpu_text_put(const struct gpu_list *list, const char *driver, struct buf *out);
