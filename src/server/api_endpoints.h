/* The endpoints of the JSON API, in one table: parameters, SQL and the columns of the answer. Its handler (api_http.h)
 * and its OpenAPI document (api_document.h) are made of this table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_PATH           "/api/v1/"
#define API_VERSION        1 /* in every answer; raised when a name changes or goes */
#define API_PARAMETERS_MAX 16
#define API_RESULTS_MAX    3
#define API_TEXT_BYTES     513 /* of a parameter's value, with the terminator */

/* How a parameter is read, and its type in SQL. */
enum api_parameter_type {
    API_TEXT,     /* String */
    API_CHOICE,   /* String: one of `choices` */
    API_TRACE_ID, /* String: 32 hexadecimal digits in lower case; the last part of the path */
    API_LIMIT,    /* UInt64: from 1 to `max` */
    API_DURATION, /* UInt64: nanoseconds, of a text such as 250ms */
    API_TIME,     /* DateTime64(9), of a text as RFC 3339 has it */
};

struct api_parameter {
    const char *name, *description;
    enum api_parameter_type type;
    const char *initial; /* the value if it is not given; NULL: "" or 0, which choose nothing */
    const char *choices; /* "cpu|off_cpu" */
    uint64_t max;
};

/* Types of columns, in the answer's JSON. */
enum api_column_type {
    API_STRING,
    API_MOMENT, /* a string as RFC 3339 has it, of a DateTime or DateTime64 */
    API_INTEGER,
    API_NUMBER, /* or null */
    API_BOOLEAN,
    API_STRINGS,    /* an array */
    API_NUMBER_MAP, /* an object with numbers */
    API_STRING_MAP, /* an object with strings */
};

struct api_column {
    const char *name;
    enum api_column_type type;
    bool is_nullable;
    const char *description; /* NULL: the name says it all */
};

/* A list of the answer: a query, and its columns. Values of parameters are in the query as {name:Type}. */
struct api_result {
    const char *name;
    const struct api_column *columns; /* up to one without a name */
    const char *sql;
};

struct api_endpoint {
    const char *path; /* after API_PATH: "requests"; "requests/{trace_id}" has an API_TRACE_ID as its first parameter */
    const char *summary, *description;
    const struct api_parameter *parameters; /* up to one without a name; NULL: none */
    struct api_result results[API_RESULTS_MAX];
    /* Why an answer is empty: what it has, in the plural, and a query for the columns time, service and host of all of
     * them. Or a sentence, without such a query. */
    const char *subject, *subjects_sql;
};

size_t api_endpoints_count(void);
const struct api_endpoint *api_endpoint(size_t number);

/* The endpoint of a path, which begins with API_PATH. `ret_id` is set to the last part of the path where the endpoint
 * has it as a parameter, else to NULL. NULL: there is none. */
const struct api_endpoint *api_endpoint_find(const char *path, const char **ret_id);

/* The parameter of this name; -1: the endpoint has none. */
int api_parameter_find(const struct api_endpoint *e, const char *name, size_t size);
