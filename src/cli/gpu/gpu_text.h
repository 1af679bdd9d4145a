/* An interval of `sonde gpu` as tables and as JSON. */
#pragma once

#include "base/buf.h"
#include "gpu_report/gpu_view.h"

/* Appends the devices, the processes on them and the verdicts. What is not known is "-". */
void gpu_text_put(const struct gpu_view *view, struct buf *out);

/* Appends a JSON object (sonde-gpu(1)) and a newline. What is not known is absent. */
void gpu_text_put_json(const struct gpu_view *view, struct buf *out);
