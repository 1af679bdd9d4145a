/* Attributes of a resource in the form of OTEL_RESOURCE_ATTRIBUTES: "name=value,name=value", values percent-encoded.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ATTRIBUTE_LIST_MAX         16
#define ATTRIBUTE_LIST_NAME_BYTES  128
#define ATTRIBUTE_LIST_VALUE_BYTES 256

/* Whether `list` is valid: at most ATTRIBUTE_LIST_MAX pairs, each with a name, that fit. "" is valid. */
bool attribute_list_is_valid(const char *list);

/* Copies the next pair of a valid list to `name` and `value`, decoded, and advances `at`. False at the end. */
bool attribute_list_next(const char **at, char name[ATTRIBUTE_LIST_NAME_BYTES], char value[ATTRIBUTE_LIST_VALUE_BYTES]);
