/* Parameters of the JSON API; see api_parameters.h. */
#include "server/api_parameters.h"

#include "base/rfc3339.h"
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TRACE_ID_DIGITS 32

__attribute__((format(printf, 2, 3))) static int refuse(char why[API_WHY_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, API_WHY_BYTES, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

/* ---- one parameter ---- */

static bool is_choice(const char *choices, const char *value)
{
    const size_t size = strlen(value);
    for (const char *at = choices; size; at++) {
        const size_t length = strcspn(at, "|");
        if (length == size && memcmp(at, value, size) == 0)
            return true;
        at += length;
        if (!*at)
            return false;
    }
    return false;
}

static int set_number(const struct api_parameter *p, struct api_value *value, char why[API_WHY_BYTES])
{
    int64_t number;
    if (!isdigit((unsigned char)value->text[0]) || units_parse_integer(value->text, 1, (int64_t)p->max, &number) < 0)
        return refuse(why, "%s: a whole number from 1 to %" PRIu64 " is needed", p->name, p->max);
    value->number = (uint64_t)number;
    return 0;
}

/* Checks `value->text`, and sets the number of a parameter that is one. */
static int set_value(const struct api_parameter *p, struct api_value *value, char why[API_WHY_BYTES])
{
    const char *text = value->text;
    switch (p->type) {
    case API_TEXT:
        return 0;
    case API_CHOICE:
        return is_choice(p->choices, text) ? 0 : refuse(why, "%s: one of %s is needed", p->name, p->choices);
    case API_TRACE_ID:
        if (strlen(text) == TRACE_ID_DIGITS && strspn(text, "0123456789abcdef") == TRACE_ID_DIGITS)
            return 0;
        return refuse(why, "%s: 32 hexadecimal digits in lower case are needed", p->name);
    case API_LIMIT:
        return set_number(p, value, why);
    case API_DURATION:
        if (units_parse_duration_ns(text, &value->number) == 0)
            return 0;
        return refuse(why, "%s: a duration such as 250ms, 15m or 24h is needed", p->name);
    case API_TIME:
        if (rfc3339_parse_ns(text, &value->number) == 0)
            return 0;
        return refuse(
            why,
            "%s: a time from 1970 to 2099 such as 2026-11-30T18:28:18Z is needed (RFC 3339; in a URL, the + of "
            "an offset is %%2B)",
            p->name);
    }
    return -EINVAL;
}

void api_values_init(struct api_values *v, const struct api_endpoint *endpoint)
{
    char why[API_WHY_BYTES];
    *v = (struct api_values){.endpoint = endpoint};
    for (size_t i = 0; endpoint->parameters && endpoint->parameters[i].name; i++) {
        const struct api_parameter *p = &endpoint->parameters[i];
        if (!p->initial)
            continue;
        snprintf(v->values[i].text, sizeof(v->values[i].text), "%s", p->initial);
        (void)set_value(p, &v->values[i], why);
    }
}

static int refuse_unknown(const struct api_endpoint *e, const char *name, size_t size, char why[API_WHY_BYTES])
{
    _cleanup_buf_ struct buf known = {0};
    for (const struct api_parameter *p = e->parameters; p && p->name; p++)
        if (p->type != API_TRACE_ID)
            buf_printf(&known, "%s%s", known.size ? ", " : "", p->name);
    if (!known.size)
        return refuse(why, "%.*s: this address takes no parameters", size < 64 ? (int)size : 64, name);
    return refuse(why, "%.*s: unknown; the parameters are %s", size < 64 ? (int)size : 64, name, known.data);
}

int api_values_set(struct api_values *v, const char *name, size_t name_size, const char *value, size_t value_size,
                   char why[API_WHY_BYTES])
{
    const int i = api_parameter_find(v->endpoint, name, name_size);
    if (i < 0)
        return refuse_unknown(v->endpoint, name, name_size, why);
    const struct api_parameter *p = &v->endpoint->parameters[i];
    struct api_value *to = &v->values[i];
    if (to->is_given)
        return refuse(why, "%s: given twice", p->name);
    if (!value || !value_size || value_size >= sizeof(to->text) || memchr(value, 0, value_size))
        return refuse(why, "%s: a value of 1 to %zu bytes without a NUL is needed", p->name, sizeof(to->text) - 1);
    memcpy(to->text, value, value_size);
    to->text[value_size] = '\0';
    to->is_given = true;
    return set_value(p, to, why);
}

/* ---- all of them ---- */

const struct api_value *api_values_find(const struct api_values *v, const char *name)
{
    const int i = api_parameter_find(v->endpoint, name, strlen(name));
    return i < 0 ? NULL : &v->values[i];
}

static struct api_value *value_of(struct api_values *v, const char *name)
{
    const int i = api_parameter_find(v->endpoint, name, strlen(name));
    return i < 0 ? NULL : &v->values[i];
}

static int complete_time(struct api_values *v, uint64_t now_ns, char why[API_WHY_BYTES])
{
    struct api_value *from = value_of(v, "from"), *to = value_of(v, "to");
    const struct api_value *last = value_of(v, "last");
    if (!from || !to || !last)
        return 0;
    if (from->is_given && last->is_given)
        return refuse(why, "last: not together with from");
    if (!to->is_given)
        to->number = now_ns;
    if (!from->is_given)
        from->number = to->number > last->number ? to->number - last->number : 0;
    if (from->number < to->number)
        return 0;
    return from->is_given ? refuse(why, "from: has to be earlier than %s", to->is_given ? "to" : "now")
                          : refuse(why, "last: has to be longer than 0");
}

static void use_unless_given(struct api_value *baseline, const struct api_value *selection)
{
    if (!baseline->is_given)
        *baseline = *selection;
}

static int complete_baseline(struct api_values *v, char why[API_WHY_BYTES])
{
    struct api_value *from = value_of(v, "baseline_from"), *to = value_of(v, "baseline_to"),
                     *service = value_of(v, "baseline_service"), *host = value_of(v, "baseline_host");
    const struct api_value *ago = value_of(v, "baseline_ago");
    if (!from || !to || !service || !host || !ago)
        return 0;
    if (from->is_given != to->is_given)
        return refuse(why, "baseline_from and baseline_to: one needs the other");
    if (from->is_given && ago->is_given)
        return refuse(why, "baseline_ago: not together with baseline_from");
    if (from->is_given && from->number >= to->number)
        return refuse(why, "baseline_from: has to be earlier than baseline_to");
    if (!from->is_given && !ago->is_given && !service->is_given && !host->is_given)
        return refuse(why, "baseline_ago, baseline_from and baseline_to, baseline_service or baseline_host is needed: "
                           "what to compare with");
    use_unless_given(from, value_of(v, "from"));
    use_unless_given(to, value_of(v, "to"));
    use_unless_given(service, value_of(v, "service"));
    use_unless_given(host, value_of(v, "host"));
    if (ago->number > from->number)
        return refuse(why, "baseline_ago: the baseline would begin before 1970");
    from->number -= ago->number;
    to->number -= ago->number;
    return 0;
}

int api_values_complete(struct api_values *v, uint64_t now_ns, char why[API_WHY_BYTES])
{
    return complete_time(v, now_ns, why) ?: complete_baseline(v, why);
}

/* ---- SQL ---- */

static void put_string(const char *text, struct buf *out)
{
    static const char digits[] = "0123456789abcdef";
    buf_puts(out, "unhex('");
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        buf_putc(out, digits[byte >> 4]);
        buf_putc(out, digits[byte & 15]);
    }
    buf_puts(out, "')");
}

static void put_value(const struct api_parameter *p, const struct api_value *value, struct buf *out)
{
    switch (p->type) {
    case API_TEXT:
    case API_CHOICE:
    case API_TRACE_ID:
        put_string(value->text, out);
        break;
    case API_LIMIT:
    case API_DURATION:
        buf_printf(out, "%" PRIu64, value->number);
        break;
    case API_TIME:
        buf_printf(out, "fromUnixTimestamp64Nano(toInt64(%" PRIu64 "))", value->number);
        break;
    }
}

void api_values_put_sql(const struct api_values *v, const char *sql, struct buf *out)
{
    for (const char *open; (open = strchr(sql, '{')) != NULL;) {
        const char *name = open + 1;
        const size_t size = strcspn(name, ":");
        const int i = api_parameter_find(v->endpoint, name, size);
        buf_append(out, sql, (size_t)(open - sql));
        if (i < 0)
            put_string("", out);
        else
            put_value(&v->endpoint->parameters[i], &v->values[i], out);
        sql = name + strcspn(name, "}");
        sql += *sql == '}';
    }
    buf_puts(out, sql);
}
