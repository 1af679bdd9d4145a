/* What the OTLP packets of all signals have in common: attributes, and the scope that names Sonde. Errors are sticky
 * in the buffers. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Buffers for messages within messages; empty between calls. Initially zeroed. */
struct otlp_scratch {
    struct buf key_value, value, text;
};

void otlp_scratch_clear(struct otlp_scratch *s);
int otlp_scratch_error(const struct otlp_scratch *s);

/* Appends the contents of an AnyValue with `text`, converted to valid UTF-8. `scratch` is empty before and after. */
void otlp_put_text_value(struct buf *out, const char *text, struct buf *scratch);
/* Appends a KeyValue as this field, with value `text`, or `number` if `text` is NULL. */
void otlp_put_attribute(struct buf *out, uint32_t field, const char *key, const char *text, uint64_t number,
                        struct otlp_scratch *scratch);
/* Appends a KeyValue as this field, with value true. */
void otlp_put_true(struct buf *out, uint32_t field, const char *key, struct otlp_scratch *scratch);
/* Appends a string field, converted to valid UTF-8. */
void otlp_put_text(struct buf *out, uint32_t field, const char *text, struct otlp_scratch *scratch);
/* Appends the pairs of a valid attribute_list as this field; of pairs with the same name, the first. `without_service`
 * leaves out service.*, which describe another service. */
void otlp_put_attribute_list(struct buf *out, uint32_t field, const char *list, bool without_service,
                             struct otlp_scratch *scratch);
/* Appends the contents of a Resource: the service on this host that telemetry describes, NULL: Sonde itself, and the
 * attributes of the node, a valid attribute_list. */
void otlp_put_resource(struct buf *out, const char *service, const char *host_name, const char *attributes,
                       struct otlp_scratch *scratch);
/* Appends the InstrumentationScope as this field. */
void otlp_put_scope(struct buf *out, uint32_t field, struct otlp_scratch *scratch);
/* Appends a trace ID or span ID as this field; `hex` has an even number of hexadecimal digits, at most 32. */
void otlp_put_id(struct buf *out, uint32_t field, const char *hex);
