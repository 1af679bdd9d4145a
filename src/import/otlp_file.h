/* The spans of an OpenTelemetry file: OTLP/JSON (one object, or one after the other, as the collector's file exporter
 * writes them) or protobuf (TracesData, ExportTraceServiceRequest: the same on the wire). Read whole: a request's spans
 * may stand anywhere in it. */
#pragma once

#include "model/otlp_spans.h"

#define OTLP_FILE_MAX_BYTES ((size_t)1 << 30)
#define OTLP_STATUS_ERROR   2

/* Adds to `spans` what is in `data`. -EBADMSG: from `*ret_offset` on it makes no sense, and what stands before was
 * added; -ENOMEM. */
int otlp_json_read(const char *data, size_t size, struct otlp_spans *spans, size_t *ret_offset);
int otlp_protobuf_read(const char *data, size_t size, struct otlp_spans *spans, size_t *ret_offset);
