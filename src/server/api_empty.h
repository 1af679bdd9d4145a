/* Why an answer of the JSON API is empty: what the server has of the kind that was asked for. Pure. */
#pragma once

#include "base/buf.h"
#include "server/api_parameters.h"

#include <stdint.h>

/* What the server has, of the selection or of the baseline of a comparison. */
struct api_subjects {
    uint64_t all;            /* of any service, host and time */
    uint64_t chosen;         /* of the service and the host */
    uint64_t within;         /* of these, in the time */
    uint64_t from_ns, to_ns; /* of the earliest and of the latest of the chosen */
};

/* Appends the query for these numbers, a row of TSV that api_subjects_read takes. The endpoint has `subjects_sql`. */
void api_subjects_put_sql(const struct api_values *v, bool is_baseline, struct buf *sql);
/* 0, or -EINVAL. */
int api_subjects_read(const char *text, struct api_subjects *ret);

/* Appends a sentence that says why there are no rows. Rows are kept for `keep_days`. */
void api_subjects_explain(const struct api_values *v, bool is_baseline, const struct api_subjects *s, uint64_t now_ns,
                          unsigned keep_days, struct buf *out);
