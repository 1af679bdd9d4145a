/* Tracing options from the command line and the environment: the lowest layer of the settings (settings.h), plus what
 * cannot change while the server runs. Filled by config.c, read by all other files. */
#pragma once

#include "../otlp/settings.h"

#include <stdbool.h>
#include <stdint.h>

enum trace_mode { TRACE_MODE_TRITON, TRACE_MODE_OPENTELEMETRY };

/* The settings that the trace protocol can change. Levels: see sonde/trace.h; 0 is OFF. */
struct trace_values {
    unsigned level;
    uint32_t rate;
    int32_t count; /* remaining requests to sample; -1: unlimited */
    uint32_t log_frequency;
};

#define TRACE_RESOURCES_MAX 128

struct sonde_trace_config {
    enum trace_mode mode;
    struct trace_values values;
    char *file;                           /* "": not given */
    char *url;                            /* "": not given */
    char *resources[TRACE_RESOURCES_MAX]; /* "key=value" */
    unsigned resource_count;
    uint32_t bsp_max_queue_size, bsp_schedule_delay_ms, bsp_max_export_batch_size;
    struct otlp_settings exporters[OTLP_SIGNAL_METRICS + 1];
    uint32_t metric_interval_ms; /* OTEL_METRIC_EXPORT_INTERVAL */
    bool no_metrics;             /* OTEL_METRICS_EXPORTER=none */
    const char *mode_given[2];   /* by mode: the name of a given setting of that mode (a literal), or NULL */
    const char *environment_bad; /* a variable with an invalid value that no option overrides, or NULL */
    char environment_value[64];
};

/* Parses a decimal integer without spaces or '+'. -EINVAL: not a number; -ERANGE. */
int trace_parse_integer(const char *text, int64_t min, int64_t max, int64_t *ret_value);

/* Parses OFF, TIMESTAMPS, TENSORS in any case; with `aliases` also the command line's words (false, true, on, min,
 * max). -EINVAL. */
int trace_parse_level(const char *text, int aliases, unsigned *ret_level);

/* Checks the combination of all options. -EINVAL with the reason in `why`. */
int trace_config_check(const struct sonde_trace_config *config, char *why, unsigned long why_size);

int trace_config_copy(const struct sonde_trace_config *config, struct sonde_trace_config **ret_config);
