/* The parameters of a call of the JSON API: checked, and as values in SQL. Names and values are untrusted. Pure. */
#pragma once

#include "base/buf.h"
#include "server/api_endpoints.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_WHY_BYTES 512

struct api_value {
    char text[API_TEXT_BYTES]; /* of a parameter that is a String in SQL */
    uint64_t number;           /* of the others: nanoseconds since 1970 of an API_TIME */
    bool is_given;
};

struct api_values {
    const struct api_endpoint *endpoint;
    struct api_value values[API_PARAMETERS_MAX]; /* in the order of the endpoint's parameters */
};

/* Sets the initial values. */
void api_values_init(struct api_values *v, const struct api_endpoint *endpoint);

/* Reads one parameter; `value` may be NULL ("?service"). 0, or -EINVAL with a sentence in `why` that names the
 * parameter and what is allowed. */
int api_values_set(struct api_values *v, const char *name, size_t name_size, const char *value, size_t value_size,
                   char why[API_WHY_BYTES]);

/* After the last parameter: decides the times (`now_ns`: nanoseconds since 1970), and what the baseline of a comparison
 * has in common with the selection. 0, or -EINVAL as above. */
int api_values_complete(struct api_values *v, uint64_t now_ns, char why[API_WHY_BYTES]);

/* A value by the parameter's name; NULL: the endpoint has no such parameter. */
const struct api_value *api_values_find(const struct api_values *v, const char *name);

/* Appends `sql` with a value in the place of each {name:Type}; a String that is no parameter of the endpoint is ''. A
 * String is written by its bytes' hexadecimal digits, and all others as decimal numbers, so that no value can end a
 * literal. (The engine's own parameters of queries are not safe on parallel connections.) */
void api_values_put_sql(const struct api_values *v, const char *sql, struct buf *out);
