/* --trace-config and its deprecated forms, as Triton accepts them; error texts are Triton's where Triton reports an
 * error. Stricter: numbers must be integers, unknown settings and settings of the other mode are rejected. The
 * environment is read first, so that options override it. */
#include "config.h"
#include "../export.h"

#include <sonde/trace.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VALUE_SIZE_MAX 65536

struct reason {
    char text[SONDE_TRACE_WHY_SIZE - 128];
};

int trace_parse_integer(const char *text, int64_t min, int64_t max, int64_t *ret_value)
{
    bool negative = *text == '-';
    const char *digit = text + negative;
    uint64_t value = 0;
    if (!*digit)
        return -EINVAL;
    for (const char *p = digit; *p; p++)
        if (*p < '0' || *p > '9')
            return -EINVAL;
    for (; *digit; digit++) {
        value = value * 10 + (uint64_t)(*digit - '0');
        if (value > INT64_MAX / 10 - 10)
            return -ERANGE;
    }
    int64_t signed_value = negative ? -(int64_t)value : (int64_t)value;
    if (signed_value < min || signed_value > max)
        return -ERANGE;
    *ret_value = signed_value;
    return 0;
}

int trace_parse_level(const char *text, int aliases, unsigned *ret_level)
{
    static const struct {
        const char *word;
        unsigned level;
        bool alias;
    } words[] = {
        {"off", 0, false},
        {"timestamps", SONDE_TRACE_TIMESTAMPS, false},
        {"tensors", SONDE_TRACE_TENSORS, false},
        {"false", 0, true},
        {"true", SONDE_TRACE_TIMESTAMPS, true},
        {"on", SONDE_TRACE_TIMESTAMPS, true},
        {"min", SONDE_TRACE_TIMESTAMPS, true},
        {"max", SONDE_TRACE_TIMESTAMPS, true},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if ((aliases || !words[i].alias) && strcasecmp(text, words[i].word) == 0) {
            *ret_level = words[i].level;
            return 0;
        }
    return -EINVAL;
}

static int set_integer(const char *value, int64_t min, int64_t max, int64_t *ret, struct reason *why)
{
    int r = trace_parse_integer(value, min, max, ret);
    if (r < 0)
        snprintf(why->text, sizeof(why->text), "%s. Got %.200s",
                 r == -EINVAL ? "Invalid option value" : "Provided option value is out of bound", value);
    return r < 0 ? -EINVAL : 0;
}

static int set_u32(const char *value, uint32_t *ret, struct reason *why)
{
    int64_t number;
    int r = set_integer(value, 0, UINT32_MAX, &number, why);
    if (r == 0)
        *ret = (uint32_t)number;
    return r;
}

static int set_text(const char *value, char **text)
{
    char *copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free(*text);
    *text = copy;
    return 0;
}

static int set_rate(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    return set_u32(value, &c->values.rate, why);
}

static int set_level(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    unsigned level;
    if (trace_parse_level(value, true, &level) < 0) {
        snprintf(why->text, sizeof(why->text),
                 "invalid value for trace level option: %.200s. Available levels are OFF, TIMESTAMPS and TENSORS",
                 value);
        return -EINVAL;
    }
    c->values.level |= level;
    return 0;
}

static int set_count(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    int64_t number;
    int r = set_integer(value, -1, INT32_MAX, &number, why);
    if (r == 0)
        c->values.count = (int32_t)number;
    return r;
}

static int parse_mode(const char *value, size_t size, enum trace_mode *ret_mode, struct reason *why)
{
    static const char *const names[] = {"triton", "opentelemetry"};
    for (unsigned i = 0; i < 2; i++)
        if (strlen(names[i]) == size && memcmp(value, names[i], size) == 0) {
            *ret_mode = (enum trace_mode)i;
            return 0;
        }
    snprintf(why->text, sizeof(why->text),
             "invalid value for trace mode option: %.*s. Available options are \"triton\" and \"opentelemetry\"",
             size > 200 ? 200 : (int)size, value);
    return -EINVAL;
}

static int set_mode(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    return parse_mode(value, strlen(value), &c->mode, why);
}

static int set_file(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    (void)why;
    return set_text(value, &c->file);
}

static int set_log_frequency(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    return set_u32(value, &c->values.log_frequency, why);
}

static int set_url(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    (void)why;
    return set_text(value, &c->url);
}

static int add_resource(struct sonde_trace_config *c, const char *text, size_t size)
{
    const char *equals = memchr(text, '=', size);
    if (!equals || equals == text)
        return -EINVAL;
    if (c->resource_count == TRACE_RESOURCES_MAX)
        return -ENOSPC;
    char *copy = strndup(text, size);
    if (!copy)
        return -ENOMEM;
    size_t key = (size_t)(equals - text) + 1;
    for (unsigned i = 0; i < c->resource_count; i++)
        if (strncmp(c->resources[i], copy, key) == 0) { /* duplicate key: the last value wins */
            free(c->resources[i]);
            c->resources[i] = copy;
            return 0;
        }
    c->resources[c->resource_count++] = copy;
    return 0;
}

static int set_resource(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    int r = add_resource(c, value, strlen(value));
    if (r == -EINVAL)
        snprintf(why->text, sizeof(why->text), "resource is '<key>=<value>'. Got %.200s", value);
    else if (r == -ENOSPC)
        snprintf(why->text, sizeof(why->text), "more than %d resources", TRACE_RESOURCES_MAX);
    return r == -ENOSPC ? -EINVAL : r;
}

static int set_queue_size(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    return set_u32(value, &c->bsp_max_queue_size, why);
}

static int set_schedule_delay(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    return set_u32(value, &c->bsp_schedule_delay_ms, why);
}

static int set_batch_size(struct sonde_trace_config *c, const char *value, struct reason *why)
{
    return set_u32(value, &c->bsp_max_export_batch_size, why);
}

#define GLOBAL (-1)

static const struct setting {
    int mode; /* GLOBAL or an enum trace_mode */
    const char *name, *deprecated, *environment;
    int (*set)(struct sonde_trace_config *c, const char *value, struct reason *why);
} settings[] = {
    {GLOBAL, "rate", "--trace-rate", NULL, set_rate},
    {GLOBAL, "level", "--trace-level", NULL, set_level},
    {GLOBAL, "count", "--trace-count", NULL, set_count},
    {GLOBAL, "mode", NULL, NULL, set_mode},
    {TRACE_MODE_TRITON, "file", "--trace-file", NULL, set_file},
    {TRACE_MODE_TRITON, "log-frequency", "--trace-log-frequency", NULL, set_log_frequency},
    {TRACE_MODE_OPENTELEMETRY, "url", NULL, NULL, set_url},
    {TRACE_MODE_OPENTELEMETRY, "resource", NULL, NULL, set_resource},
    {TRACE_MODE_OPENTELEMETRY, "bsp_max_queue_size", NULL, "OTEL_BSP_MAX_QUEUE_SIZE", set_queue_size},
    {TRACE_MODE_OPENTELEMETRY, "bsp_schedule_delay", NULL, "OTEL_BSP_SCHEDULE_DELAY", set_schedule_delay},
    {TRACE_MODE_OPENTELEMETRY, "bsp_max_export_batch_size", NULL, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", set_batch_size},
};
#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

static void note_bad_environment(struct sonde_trace_config *c, const char *name, const char *value)
{
    c->environment_bad = name;
    snprintf(c->environment_value, sizeof(c->environment_value), "%s", value);
}

/* Parses OTEL_RESOURCE_ATTRIBUTES: key=value,key=value. */
static int take_resources(struct sonde_trace_config *c, const char *list)
{
    static const char name[] = "OTEL_RESOURCE_ATTRIBUTES";
    for (const char *p = list; *p;) {
        size_t size = strcspn(p, ",");
        int r = size > 0 ? add_resource(c, p, size) : 0;
        if (r == -ENOMEM)
            return r;
        if (r < 0)
            note_bad_environment(c, name, list);
        p += size;
        p += *p == ',';
    }
    return 0;
}

/* Reads the exporter settings that have no Triton option. */
static int take_exporter_environment(struct sonde_trace_config *c)
{
    static const char interval[] = "OTEL_METRIC_EXPORT_INTERVAL";
    const char *value = getenv(interval), *exporter = getenv("OTEL_METRICS_EXPORTER");
    int64_t ms;
    if (value && *value && trace_parse_integer(value, 1, INT32_MAX, &ms) == 0)
        c->metric_interval_ms = (uint32_t)ms;
    else if (value && *value)
        note_bad_environment(c, interval, value);
    c->no_metrics = exporter && strcmp(exporter, "none") == 0;
    for (unsigned i = 0; i <= OTLP_SIGNAL_METRICS; i++)
        if (otlp_settings_read(&c->exporters[i], i) < 0)
            return -ENOMEM;
    return 0;
}

static int take_environment(struct sonde_trace_config *c)
{
    struct reason why;
    if (take_exporter_environment(c) < 0)
        return -ENOMEM;
    const char *list = getenv("OTEL_RESOURCE_ATTRIBUTES");
    if (list && take_resources(c, list) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const char *value = settings[i].environment ? getenv(settings[i].environment) : NULL;
        if (value && *value && settings[i].set(c, value, &why) < 0)
            note_bad_environment(c, settings[i].environment, value);
    }
    return 0;
}

SONDE_EXPORT int sonde_trace_config_new(struct sonde_trace_config **ret_config)
{
    struct sonde_trace_config *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->values = (struct trace_values){.rate = 1000, .count = -1};
    c->bsp_max_queue_size = 2048;
    c->bsp_schedule_delay_ms = 5000;
    c->bsp_max_export_batch_size = 512;
    c->metric_interval_ms = 60000;
    c->file = strdup("");
    c->url = strdup("");
    if (!c->file || !c->url || take_environment(c) < 0) {
        sonde_trace_config_free(c);
        return -ENOMEM;
    }
    *ret_config = c;
    return 0;
}

SONDE_EXPORT void sonde_trace_config_free(struct sonde_trace_config *config)
{
    if (!config)
        return;
    for (unsigned i = 0; i < config->resource_count; i++)
        free(config->resources[i]);
    free(config->file);
    free(config->url);
    for (unsigned i = 0; i <= OTLP_SIGNAL_METRICS; i++)
        otlp_settings_free(&config->exporters[i]);
    free(config);
}

static int set_one(struct sonde_trace_config *c, const struct setting *s, const char *value, struct reason *why)
{
    int r = s->set(c, value, why);
    if (r < 0)
        return r;
    if (s->mode != GLOBAL)
        c->mode_given[s->mode] = s->name;
    if (s->environment && c->environment_bad && strcmp(s->environment, c->environment_bad) == 0)
        c->environment_bad = NULL;
    return 0;
}

static int refuse(char *why, size_t why_size, const char *option, const char *prefix, const char *reason)
{
    if (why_size)
        snprintf(why, why_size, "Bad option: \"%s%s\".\n%s", option, prefix, reason);
    return -EINVAL;
}

/* Applies `[<mode>,]<setting>=<value>`. A comma after the '=' belongs to the value. */
static int set_config(struct sonde_trace_config *c, const char *text, char *why, size_t why_size)
{
    struct reason reason = {""};
    const char *equals = strchr(text, '='), *comma = strchr(text, ',');
    if (comma && equals && comma > equals)
        comma = NULL;
    if (comma == text) {
        snprintf(
            reason.text, sizeof(reason.text),
            "No trace mode specified. --trace-config option format is <trace mode>,<setting>=<value> or <setting>=<value>. Got %.200s",
            text);
        return refuse(why, why_size, "--trace-config", "", reason.text);
    }
    const char *name = comma ? comma + 1 : text;
    if (!equals || equals == name || !equals[1]) {
        snprintf(reason.text, sizeof(reason.text),
                 "--trace-config option format is '<trace mode>,<setting>=<value>'. Got %.200s", text);
        return refuse(why, why_size, "--trace-config", "", reason.text);
    }
    enum trace_mode mode = TRACE_MODE_TRITON;
    if (comma && parse_mode(text, (size_t)(comma - text), &mode, &reason) < 0)
        return refuse(why, why_size, "--trace-config", "", reason.text);

    char option[64];
    size_t name_size = (size_t)(equals - name);
    snprintf(option, sizeof(option), " %.*s", equals - text > 50 ? 50 : (int)(equals - text), text);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];
        if (s->mode != (comma ? (int)mode : GLOBAL) || strlen(s->name) != name_size ||
            memcmp(s->name, name, name_size) != 0)
            continue;
        int r = set_one(c, s, equals + 1, &reason);
        return r == -EINVAL ? refuse(why, why_size, "--trace-config", option, reason.text) : r;
    }
    return refuse(
        why, why_size, "--trace-config", option,
        !comma
            ? "unknown trace setting. Available settings are rate, level, count and mode; settings of a mode are given as <trace mode>,<setting>=<value>"
        : mode == TRACE_MODE_TRITON
            ? "unknown trace setting. Available settings of mode triton are file and log-frequency"
            : "unknown trace setting. Available settings of mode opentelemetry are url, resource, bsp_max_queue_size, bsp_schedule_delay and bsp_max_export_batch_size");
}

SONDE_EXPORT int sonde_trace_config_set(struct sonde_trace_config *config, const char *option, const char *value,
                                        char *why, size_t why_size)
{
    if (strlen(value) > VALUE_SIZE_MAX)
        return refuse(why, why_size, option, "", "the value is too long");
    if (strcmp(option, "--trace-config") == 0)
        return set_config(config, value, why, why_size);
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (settings[i].deprecated && strcmp(settings[i].deprecated, option) == 0) {
            struct reason reason = {""};
            int r = set_one(config, &settings[i], value, &reason);
            return r == -EINVAL ? refuse(why, why_size, option, "", reason.text) : r;
        }
    return -ENOENT;
}

static bool is_option(const char *name)
{
    bool found = strcmp(name, "--trace-config") == 0;
    for (size_t i = 0; i < SETTING_COUNT; i++)
        found |= settings[i].deprecated && strcmp(settings[i].deprecated, name) == 0;
    return found;
}

/* Returns how many arguments the option at argv[0] occupies; 0: not a trace option. */
static int take_option(struct sonde_trace_config *c, int left, char **argv, char *why, size_t why_size)
{
    char name[32];
    size_t size = strcspn(argv[0], "=");
    if (size >= sizeof(name))
        return 0;
    memcpy(name, argv[0], size);
    name[size] = '\0';
    if (!is_option(name))
        return 0;
    bool attached = argv[0][size] == '=';
    if (!attached && left < 2)
        return refuse(why, why_size, name, "", "the option requires an argument");
    int r = sonde_trace_config_set(c, name, attached ? argv[0] + size + 1 : argv[1], why, why_size);
    return r < 0 ? r : attached ? 1 : 2;
}

SONDE_EXPORT int sonde_trace_config_take(struct sonde_trace_config *config, int *argc, char **argv, char *why,
                                         size_t why_size)
{
    int kept = *argc > 0 ? 1 : 0, i = kept;
    char **rest = calloc((size_t)*argc + 1, sizeof(*rest));
    if (!rest)
        return -ENOMEM;
    while (i < *argc && strcmp(argv[i], "--") != 0) {
        int taken = take_option(config, *argc - i, argv + i, why, why_size);
        if (taken < 0) {
            free(rest);
            return taken;
        }
        if (taken == 0)
            rest[kept++] = argv[i];
        i += taken ? taken : 1;
    }
    for (; i < *argc; i++)
        rest[kept++] = argv[i];
    if (*argc > 0)
        memcpy(argv + 1, rest + 1, (size_t)(kept - 1) * sizeof(*argv));
    if (kept < *argc)
        argv[kept] = NULL;
    *argc = kept;
    free(rest);
    return 0;
}

int trace_config_check(const struct sonde_trace_config *c, char *why, unsigned long why_size)
{
    static const char *const modes[] = {"triton", "opentelemetry"};
    char option[96], reason[192];
    enum trace_mode other = c->mode == TRACE_MODE_TRITON ? TRACE_MODE_OPENTELEMETRY : TRACE_MODE_TRITON;
    if (c->mode_given[other]) {
        snprintf(option, sizeof(option), " %s,%s", modes[other], c->mode_given[other]);
        snprintf(reason, sizeof(reason), "a setting of mode %s, but the trace mode is %s", modes[other],
                 modes[c->mode]);
        return refuse(why, why_size, "--trace-config", option, reason);
    }
    if (c->mode == TRACE_MODE_TRITON)
        return 0;
    if (c->environment_bad) {
        snprintf(reason, sizeof(reason), "Invalid option value. Got %s", c->environment_value);
        return refuse(why, why_size, c->environment_bad, "", reason);
    }
    if (c->bsp_max_queue_size == 0 || c->bsp_max_export_batch_size == 0) {
        return refuse(why, why_size, "--trace-config opentelemetry,",
                      c->bsp_max_queue_size == 0 ? "bsp_max_queue_size" : "bsp_max_export_batch_size",
                      "Provided option value is out of bound. Got 0");
    }
    if (c->bsp_max_export_batch_size > c->bsp_max_queue_size) {
        snprintf(reason, sizeof(reason), "must be less than or equal to bsp_max_queue_size (%u). Got %u",
                 c->bsp_max_queue_size, c->bsp_max_export_batch_size);
        return refuse(why, why_size, "--trace-config opentelemetry,", "bsp_max_export_batch_size", reason);
    }
    return 0;
}

int trace_config_copy(const struct sonde_trace_config *config, struct sonde_trace_config **ret_config)
{
    struct sonde_trace_config *c = malloc(sizeof(*c));
    if (!c)
        return -ENOMEM;
    *c = *config;
    c->file = strdup(config->file);
    c->url = strdup(config->url);
    bool good = c->file && c->url;
    for (unsigned i = 0; i <= OTLP_SIGNAL_METRICS; i++)
        good &= otlp_settings_copy(&c->exporters[i], &config->exporters[i]) == 0;
    for (unsigned i = 0; i < c->resource_count; i++) {
        c->resources[i] = strdup(config->resources[i]);
        good = good && c->resources[i];
    }
    if (!good) {
        sonde_trace_config_free(c);
        return -ENOMEM;
    }
    *ret_config = c;
    return 0;
}
