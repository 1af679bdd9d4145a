/* Reads the goroutine labels of a sample record (probes/go_labels.h), in the form that every export needs: UTF-8,
 * sorted by key, each key once. Text that the BPF side truncated ends with "…". */
#pragma once

#include "model/sample.h"

#include <linux/types.h>

#include "probes/go_labels.h"

struct stack_record;

struct sample_labels { /* self-contained: `at` points into `keys` and `values` */
    struct sample_label at[GO_LABELS_MAX];
    size_t count;
    char keys[GO_LABELS_MAX][3 * GO_LABEL_KEY_BYTES + 4], values[GO_LABELS_MAX][3 * GO_LABEL_VALUE_BYTES + 4];
};

/* Reads the labels of a validated record. The first of two labels with the same key wins. */
void sample_labels_read(const struct stack_record *record, struct sample_labels *ret);
