/* What the command line and the environment say about tracing: the lowest layer of the settings (settings.h),
 * and what cannot be changed while the server runs. Filled by config.c, read by everything else. */
#pragma once

#include "../otlp/settings.h"

#include <stdbool.h>
#include <stdint.h>

enum trace_mode { TRACE_MODE_TRITON, TRACE_MODE_OPENTELEMETRY };

/* The settings that the trace protocol can change. Levels are those of sonde/trace.h; 0 is OFF. */
struct trace_values {
    unsigned level;
    uint32_t rate;
    int32_t count; /* how many more are sampled; -1: without end */
    uint32_t log_frequency;
};

#define TRACE_RESOURCES_MAX 128

struct sonde_trace_config {
    enum trace_mode mode;
    struct trace_values values;
    char *file;                           /* "" when none was given */
    char *url;                            /* likewise */
    char *resources[TRACE_RESOURCES_MAX]; /* "key=value" */
    unsigned resource_count;
    uint32_t bsp_max_queue_size, bsp_schedule_delay_ms, bsp_max_export_batch_size;
    struct otlp_settings exporters[OTLP_SIGNAL_METRICS + 1];
    uint32_t metric_interval_ms; /* OTEL_METRIC_EXPORT_INTERVAL */
    bool no_metrics;             /* OTEL_METRICS_EXPORTER=none */
    const char *mode_given[2];   /* by mode: a setting of it that was given, or NULL; a literal */
    const char *environment_bad; /* a variable that could not be read and that no option overrides, or NULL */
    char environment_value[64];
};

/* A whole decimal number, without sign but for a '-', without space. -EINVAL: it is none; -ERANGE. */
int trace_parse_integer(const char *text, int64_t min, int64_t max, int64_t *ret_value);

/* OFF, TIMESTAMPS, TENSORS in any case; with `aliases` also the command line's words (false, true, on, min,
 * max). -EINVAL. */
int trace_parse_level(const char *text, int aliases, unsigned *ret_level);

/* What can only be said when all options are known. -EINVAL with the reason in `why`. */
int trace_config_check(const struct sonde_trace_config *config, char *why, unsigned long why_size);

int trace_config_copy(const struct sonde_trace_config *config, struct sonde_trace_config **ret_config);
