/* The parameters of the JSON API, in an endpoint's number and "name=value" lines, and their values in its queries. */
#include "server/api_empty.h"
#include "server/api_parameters.h"
#include "server/sql_text.h"

#include "base/rfc3339.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOW_NS UINT64_C(1796063298000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count(const struct buf *text, char c)
{
    size_t found = 0;
    for (size_t i = 0; i < text->size; i++)
        found += text->data[i] == c;
    return found;
}

/* No value changes what the query consists of. */
static void check_query(const struct api_values *v, const char *sql)
{
    _cleanup_buf_ struct buf with = {0}, without = {0};
    struct api_values none;
    struct sql_text text;
    const char *why;
    api_values_init(&none, v->endpoint);
    api_values_put_sql(v, sql, &with);
    api_values_put_sql(&none, sql, &without);
    static const char marks[] = "'()\"`\\;-/{}$# \n";
    for (const char *c = marks; *c; c++)
        if (count(&with, *c) != count(&without, *c))
            abort();
    if (sql_text_check(with.data, with.size, &text, &why) < 0)
        abort();
}

static void check_values(const struct api_values *v)
{
    for (size_t i = 0; i < API_RESULTS_MAX && v->endpoint->results[i].name; i++)
        check_query(v, v->endpoint->results[i].sql);
    const struct api_value *from = api_values_find(v, "from"), *to = api_values_find(v, "to");
    char text[RFC3339_BYTES];
    uint64_t again;
    if (from && (from->number >= to->number || rfc3339_parse_ns(rfc3339_format_ns(from->number, text), &again) < 0 ||
                 again != from->number))
        abort();
    _cleanup_buf_ struct buf why = {0};
    struct api_subjects subjects;
    if (v->endpoint->subjects_sql && api_subjects_read(v->values[0].text, &subjects) == 0)
        api_subjects_explain(v, false, &subjects, NOW_NS, 30, &why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct api_values v;
    char why[API_WHY_BYTES];
    if (!size)
        return 0;
    api_values_init(&v, api_endpoint(data[0] % api_endpoints_count()));
    const char *at = (const char *)data + 1, *end = (const char *)data + size;
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((line ? line : end) - at);
        const char *value = memchr(at, '=', length);
        const size_t name_size = value ? (size_t)(value - at) : length;
        why[0] = '\0';
        if (api_values_set(&v, at, name_size, value ? value + 1 : NULL, value ? length - name_size - 1 : 0, why) < 0) {
            if (!why[0])
                abort();
            return 0;
        }
        at += length + 1;
    }
    if (api_values_complete(&v, NOW_NS, why) == 0)
        check_values(&v);
    return 0;
}
