/* Metrics as text; see openmetrics.h. The two formats differ in the position of the counter suffix, # UNIT and # EOF,
 * the type "info", and an escape in help texts. */
#include "export/openmetrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct writer {
    bool openmetrics;
    struct buf *out;
};

/* Appends valid UTF-8 with \ and newline escaped, and quotes if `quotes`. */
static void put_escaped(struct buf *out, const char *text, bool quotes)
{
    _cleanup_buf_ struct buf clean = {0};
    if (buf_put_utf8(&clean, text) < 0 && !out->error)
        out->error = clean.error;
    for (size_t i = 0; i < clean.size; i++) {
        char c = clean.data[i];
        if (c == '\n')
            buf_puts(out, "\\n");
        else if (c == '\\' || (c == '"' && quotes))
            buf_printf(out, "\\%c", c);
        else
            buf_putc(out, c);
    }
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
        buf_printf(out, decimal ? "%.1f" : "%.0f", value);
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

/* `name` `suffix`{labels,le="bound"}, with `bound` NULL for none. */
static void put_series(struct writer *w, const struct metric_family *family, const char *suffix,
                       const struct metric_point *point, const double *bound)
{
    buf_printf(w->out, "%s%s", family->name, suffix);
    if (point->label_count || bound) {
        buf_putc(w->out, '{');
        for (size_t i = 0; i < point->label_count; i++) {
            buf_printf(w->out, "%s%s=\"", i ? "," : "", point->labels[i].name);
            put_escaped(w->out, point->labels[i].value, true);
            buf_putc(w->out, '"');
        }
        if (bound) {
            buf_printf(w->out, "%sle=\"", point->label_count ? "," : "");
            put_number(w->out, *bound, true);
            buf_putc(w->out, '"');
        }
        buf_putc(w->out, '}');
    }
    buf_putc(w->out, ' ');
}

static void put_histogram(struct writer *w, const struct metric_family *family, const struct metric_point *point)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= point->bound_count; i++) {
        double bound = i < point->bound_count ? point->bounds[i] : INFINITY;
        count += point->counts[i];
        put_series(w, family, "_bucket", point, &bound);
        buf_printf(w->out, "%llu\n", (unsigned long long)count);
    }
    put_series(w, family, "_sum", point, NULL);
    put_number(w->out, point->value, false);
    buf_putc(w->out, '\n');
    put_series(w, family, "_count", point, NULL);
    buf_printf(w->out, "%llu\n", (unsigned long long)count);
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
        if (family->type == METRIC_HISTOGRAM) {
            put_histogram(w, family, point);
            continue;
        }
        put_series(w, family, suffix, point, NULL);
        put_number(w->out, family->type == METRIC_INFO ? 1 : point->value, false);
        buf_putc(w->out, '\n');
    }
}

int openmetrics_write(const struct metric_set *set, bool openmetrics, struct buf *out)
{
    int r = metric_set_error(set);
    if (r < 0)
        return r;
    struct writer w = {.openmetrics = openmetrics, .out = out};
    for (size_t i = 0; i < metric_set_families(set); i++) {
        struct metric_family family = metric_set_family(set, i);
        put_family(&w, &family);
    }
    if (openmetrics)
        buf_puts(out, "# EOF\n");
    return buf_error(out);
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
