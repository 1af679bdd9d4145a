/* The answer to /metrics, which all who ask within a second share: where there are many jobs it has tens of megabytes.
 * Thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "serve/page.h"
#include "serve/readers.h"

#include <microhttpd.h>
#include <stdbool.h>

struct metrics_answer;

/* Borrows both. 0 or -ENOMEM. */
int metrics_answer_new(const struct page_data *data, struct readers *readers, struct metrics_answer **ret);
void metrics_answer_free(struct metrics_answer *m);
DEFINE_FREEP(metrics_answer)

/* Replies, in the Prometheus text format or as OpenMetrics. 0 with the result of the reply in `*ret`; -EBUSY: too many
 * answers are being sent; otherwise the error of page_data.metrics. After an error nothing is replied yet. */
int metrics_answer_send(struct metrics_answer *m, struct MHD_Connection *connection, bool openmetrics,
                        enum MHD_Result *ret);
