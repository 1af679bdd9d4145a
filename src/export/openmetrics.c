/* Metrics as text; see openmetrics.h. The two formats differ in the position of the counter suffix, # UNIT and # EOF,
 * the type "info", and an escape in help texts. */
#include "export/openmetrics.h"

#include "base/saturated.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A page is mostly histograms: their labels and bounds are the same in many lines, and are formatted once. */
struct writer {
    bool openmetrics;
    struct buf *out;
    struct buf labels; /* of the current point: `a="x",b="y"` */
    struct buf bucket; /* how the lines of its buckets begin: `name_bucket{a="x",b="y",` */
    struct buf bounds; /* how they go on, by bound of `bounds_of`: `le="1.0"} `, each with a NUL behind it */
    const double *bounds_of;
    size_t bound_count;
};

static void writer_clear(struct writer *w)
{
    buf_clear(&w->labels);
    buf_clear(&w->bucket);
    buf_clear(&w->bounds);
}

static int writer_error(const struct writer *w)
{
    return buf_error(w->out) ?: buf_error(&w->labels) ?: buf_error(&w->bucket) ?: buf_error(&w->bounds);
}

/* Number of bytes from `text` on that are written as they are: nearly all of nearly every text. */
static size_t plain_length(const char *text)
{
    size_t n = 0;
    while (text[n] >= 0x20 && text[n] < 0x7F && text[n] != '"' && text[n] != '\\')
        n++;
    return n;
}

/* Appends valid UTF-8 with \ and newline escaped, and quotes if `quotes`; without other control characters, as people
 * print the page on terminals. */
static void put_escaped(struct buf *out, const char *text, bool quotes)
{
    while (*text) {
        const size_t plain = plain_length(text);
        buf_append(out, text, plain);
        text += plain;
        if (!*text)
            break;
        const size_t length = utf8_length(text);
        if (*text == '\n')
            buf_puts(out, "\\n");
        else if (*text == '\\' || (*text == '"' && quotes))
            buf_printf(out, "\\%c", *text);
        else if (length > 0 && !utf8_at_control(text))
            buf_append(out, text, length);
        else
            buf_puts(out, UTF8_REPLACEMENT);
        text += length > 0 ? length : 1;
    }
}

static void put_count(struct buf *out, uint64_t count)
{
    char digits[20];
    size_t at = sizeof(digits);
    do
        digits[--at] = (char)('0' + count % 10);
    while (count /= 10);
    buf_append(out, digits + at, sizeof(digits) - at);
}

/* Appends the shortest text that parses back to `value`. `decimal`: with a point even for integers, as OpenMetrics
 * requires for bucket bounds. */
static void put_number(struct buf *out, double value, bool decimal)
{
    if (isnan(value)) {
        buf_puts(out, "NaN");
    } else if (isinf(value)) {
        buf_puts(out, value > 0 ? "+Inf" : "-Inf");
    } else if (value == floor(value) &&
               fabs(value) < 9007199254740992.0) { /* below 2^53 integers are exact, and easier to read than 1e+06 */
        if (signbit(value))
            buf_putc(out, '-');
        put_count(out, (uint64_t)fabs(value));
        if (decimal)
            buf_puts(out, ".0");
    } else {
        char text[32];
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof(text), "%.*g", digits, value);
            if (strtod(text, NULL) == value)
                break;
        }
        buf_puts(out, text);
    }
}

static void format_labels(struct writer *w, const struct metric_point *point)
{
    w->labels.size = 0;
    for (size_t i = 0; i < point->label_count; i++) {
        buf_puts(&w->labels, i ? "," : "");
        buf_puts(&w->labels, point->labels[i].name);
        buf_puts(&w->labels, "=\"");
        put_escaped(&w->labels, point->labels[i].value, true);
        buf_putc(&w->labels, '"');
    }
}

static void format_bounds(struct writer *w, const struct metric_point *point)
{
    const size_t count = point->bound_count;
    if (w->bounds_of && w->bound_count == count &&
        (count == 0 || memcmp(w->bounds_of, point->bounds, count * sizeof(*point->bounds)) == 0))
        return;
    w->bounds_of = point->bounds;
    w->bound_count = count;
    w->bounds.size = 0;
    for (size_t i = 0; i <= count; i++) {
        buf_puts(&w->bounds, "le=\"");
        put_number(&w->bounds, i < count ? point->bounds[i] : INFINITY, true);
        buf_append(&w->bounds, "\"} ", sizeof("\"} "));
    }
}

/* `name` `suffix`{labels} of the current point. */
static void put_series(struct writer *w, const struct metric_family *family, const char *suffix)
{
    buf_puts(w->out, family->name);
    buf_puts(w->out, suffix);
    if (w->labels.size) {
        buf_putc(w->out, '{');
        buf_append(w->out, w->labels.data, w->labels.size);
        buf_putc(w->out, '}');
    }
    buf_putc(w->out, ' ');
}

static void format_bucket(struct writer *w, const struct metric_family *family)
{
    w->bucket.size = 0;
    buf_puts(&w->bucket, family->name);
    buf_puts(&w->bucket, "_bucket{");
    buf_append(&w->bucket, w->labels.data, w->labels.size);
    buf_puts(&w->bucket, w->labels.size ? "," : "");
}

/* Only OpenMetrics has exemplars. Its times are seconds. */
static void put_exemplar(struct writer *w, const struct metric_exemplar *e)
{
    buf_printf(w->out, " # {trace_id=\"%s\",span_id=\"%s\"} ", e->trace_id, e->span_id);
    put_number(w->out, e->value, false);
    buf_printf(w->out, " %llu.%03llu", (unsigned long long)(e->unix_ns / 1000000000),
               (unsigned long long)(e->unix_ns / 1000000 % 1000));
}

static void put_histogram(struct writer *w, const struct metric_family *family, const struct metric_point *point)
{
    uint64_t count = 0;
    format_bucket(w, family);
    format_bounds(w, point);
    if (writer_error(w) < 0)
        return;
    const char *bound = w->bounds.data;
    for (size_t i = 0; i <= point->bound_count; i++) {
        const size_t length = strlen(bound);
        count = saturated_sum(count, point->counts[i]);
        buf_append(w->out, w->bucket.data, w->bucket.size);
        buf_append(w->out, bound, length);
        put_count(w->out, count);
        if (w->openmetrics && point->exemplars && point->exemplars[i].trace_id)
            put_exemplar(w, &point->exemplars[i]);
        buf_putc(w->out, '\n');
        bound += length + 1;
    }
    put_series(w, family, "_sum");
    put_number(w->out, point->value, false);
    buf_putc(w->out, '\n');
    put_series(w, family, "_count");
    put_count(w->out, count);
    buf_putc(w->out, '\n');
}

static void put_family(struct writer *w, const struct metric_family *family)
{
    static const char *const types[] = {[METRIC_GAUGE] = "gauge",
                                        [METRIC_COUNTER] = "counter",
                                        [METRIC_HISTOGRAM] = "histogram",
                                        [METRIC_INFO] = "info"};
    static const char *const suffixes[] = {
        [METRIC_GAUGE] = "", [METRIC_COUNTER] = "_total", [METRIC_HISTOGRAM] = "", [METRIC_INFO] = "_info"};
    const char *suffix = suffixes[family->type];
    /* The Prometheus format has no type "info", and its family names include the suffix. */
    const char *type = !w->openmetrics && family->type == METRIC_INFO ? "gauge" : types[family->type];
    const char *family_suffix = w->openmetrics ? "" : suffix;

    buf_printf(w->out, "# TYPE %s%s %s\n", family->name, family_suffix, type);
    if (w->openmetrics && family->unit[0])
        buf_printf(w->out, "# UNIT %s %s\n", family->name, family->unit);
    buf_printf(w->out, "# HELP %s%s ", family->name, family_suffix);
    put_escaped(w->out, family->help, w->openmetrics);
    buf_putc(w->out, '\n');
    for (size_t i = 0; i < family->point_count; i++) {
        const struct metric_point *point = &family->points[i];
        format_labels(w, point);
        if (family->type == METRIC_HISTOGRAM) {
            put_histogram(w, family, point);
            continue;
        }
        put_series(w, family, suffix);
        put_number(w->out, family->type == METRIC_INFO ? 1 : point->value, false);
        buf_putc(w->out, '\n');
    }
}

int openmetrics_write(const struct metric_set *set, bool openmetrics, struct buf *out)
{
    int r = metric_set_error(set);
    if (r < 0)
        return r;
    _cleanup_(writer_clear) struct writer w = {.openmetrics = openmetrics, .out = out};
    for (size_t i = 0; i < metric_set_families(set); i++) {
        struct metric_family family = metric_set_family(set, i);
        put_family(&w, &family);
    }
    if (openmetrics)
        buf_puts(out, "# EOF\n");
    return writer_error(&w);
}

/* One element of an Accept header: `type/subtype; parameter=value; ...`, from `text` to `end`. */
struct accept_range {
    char type[64];
    char version[16];
    double quality;
};

static void copy_trimmed(char *out, size_t size, const char *text, const char *end)
{
    while (text < end && strchr(" \t\"", *text))
        text++;
    while (end > text && strchr(" \t\"", end[-1]))
        end--;
    snprintf(out, size, "%.*s", (int)(end - text), text);
}

static struct accept_range parse_range(const char *text, const char *end)
{
    struct accept_range range = {.quality = 1};
    const char *part_end = memchr(text, ';', end - text);
    part_end = part_end ? part_end : end;
    copy_trimmed(range.type, sizeof(range.type), text, part_end);
    while (part_end < end) {
        text = part_end + 1;
        part_end = memchr(text, ';', end - text);
        part_end = part_end ? part_end : end;
        const char *equals = memchr(text, '=', part_end - text);
        if (!equals)
            continue;
        char name[16], value[16];
        copy_trimmed(name, sizeof(name), text, equals);
        copy_trimmed(value, sizeof(value), equals + 1, part_end);
        if (strcasecmp(name, "q") == 0)
            range.quality = strtod(value, NULL);
        else if (strcasecmp(name, "version") == 0)
            memcpy(range.version, value, sizeof(range.version));
    }
    return range;
}

static bool is_supported_version(const char *version)
{
    return !version[0] || strcmp(version, "1.0.0") == 0 || strcmp(version, "0.0.1") == 0;
}

bool openmetrics_accepted(const char *accept)
{
    double openmetrics = 0, text = 0;
    while (accept && *accept) {
        const char *end = accept + strcspn(accept, ",");
        struct accept_range range = parse_range(accept, end);
        if (strcasecmp(range.type, "application/openmetrics-text") == 0 && is_supported_version(range.version))
            openmetrics = fmax(openmetrics, range.quality);
        else if (strcasecmp(range.type, "text/plain") == 0)
            text = fmax(text, range.quality);
        accept = *end ? end + 1 : end;
    }
    return openmetrics > 0 && openmetrics >= text;
}

const char *openmetrics_content_type(bool openmetrics)
{
    return openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                       : "text/plain; version=0.0.4; charset=utf-8";
}
