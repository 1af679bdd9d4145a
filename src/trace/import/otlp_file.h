/* Reads the spans of an OpenTelemetry file: OTLP/JSON (one object or several in sequence, as written by the
 * collector's file exporter) or protobuf (TracesData or ExportTraceServiceRequest, which have the same encoding). The
 * file is read as a whole, because the spans of a request may be anywhere in it. */
#pragma once

#include "trace/model/otlp_spans.h"

#define OTLP_FILE_MAX_BYTES ((size_t)1 << 30)

/* Adds the spans of `data`, JSON or protobuf, to `spans`. -EBADMSG: invalid from `*ret_offset` on; spans before it were
 * added. -ENOMEM. */
int otlp_file_read(const char *data, size_t size, struct otlp_spans *spans, size_t *ret_offset);
/* The same of one of the two. */
int otlp_json_read(const char *data, size_t size, struct otlp_spans *spans, size_t *ret_offset);
int otlp_protobuf_read(const char *data, size_t size, struct otlp_spans *spans, size_t *ret_offset);
