/* A bounded table of the names of services, for metrics that have one series for each service. Not thread-safe. */
#pragma once

#include <stddef.h>

#define SERVICE_NAME_BYTES 64 /* longer names are cut */

/* Returns the place of `name` in the table of `*count` names, at most `max`, and adds the name if it is new. The last
 * place is called "other" and is that of all further names. */
size_t service_names_place(char names[][SERVICE_NAME_BYTES], size_t max, size_t *count, const char *name);
