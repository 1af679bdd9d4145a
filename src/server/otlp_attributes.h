/* Attributes of OTLP as values of columns. Values that are not text become text as in the Collector's exporter: numbers
 * in decimal, lists and maps as JSON, bytes as base64. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"

#include <stdbool.h>
#include <stdint.h>

#define OTLP_DEPTH_MAX 16 /* of values in values */

/* Appends the KeyValue messages in the fields `number` of `message` as a Map(String, String), and adds their number to
 * `elements`. 0; -EBADMSG: a message is invalid; -ELOOP: values in values beyond OTLP_DEPTH_MAX. */
int otlp_put_attributes(struct buf *row, struct cursor message, uint32_t number, uint64_t *elements);

/* Appends an Array of Maps: of each message in the fields `number` of `message`, the KeyValue messages in its fields
 * `inner`. The rest as above. */
int otlp_put_maps(struct buf *row, struct cursor message, uint32_t number, uint32_t inner, uint64_t *elements);

/* Appends an AnyValue as a String. Errors as above. */
int otlp_put_value(struct buf *row, struct cursor any_value);

/* Whether an AnyValue is one string, which is borrowed. */
bool otlp_value_is_text(struct cursor any_value, struct cursor *ret);

/* Returns the text of the attribute `key`; an empty cursor if the message lacks it. */
struct cursor otlp_find_text(struct cursor message, uint32_t number, const char *key);
