/* The labels in the record of a sample (probes/go_labels.h), as texts in order, as every profile wants them: UTF-8,
 * each key but once. What the kernel half had to cut ends with "…". */
#pragma once

#include "model/sample.h"

#include <linux/types.h>

#include "probes/go_labels.h"

struct cpu_sample;

struct sample_labels { /* its texts are in itself */
    struct sample_label at[GO_LABELS_MAX];
    size_t count;
    char keys[GO_LABELS_MAX][3 * GO_LABEL_KEY_BYTES + 4], values[GO_LABELS_MAX][3 * GO_LABEL_VALUE_BYTES + 4];
};

/* Of a record that is sound. */
void sample_labels_read(const struct cpu_sample *record, struct sample_labels *ret);
