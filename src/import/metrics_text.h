/* Reads metrics in Prometheus' text format, as an agent serves them on /metrics. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define METRICS_TEXT_LABELS_MAX 16

struct metrics_text_label {
    const char *name, *value;
};

struct metrics_text_series {
    const char *name;
    struct metrics_text_label labels[METRICS_TEXT_LABELS_MAX]; /* further ones are left out */
    size_t label_count;
    double value;
};

/* Reads the next series of `*at` and moves `*at` behind its line. Comments and malformed lines are skipped. The text is
 * NUL-terminated and is changed: `ret` points into it. False: there is no further series. */
bool metrics_text_next(char **at, struct metrics_text_series *ret);

/* The value of the label; "": the series has no such label. */
const char *metrics_text_label(const struct metrics_text_series *series, const char *name);
