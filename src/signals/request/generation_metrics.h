/* Generations of tokens by model servers, by the names of OpenTelemetry's conventions for generative AI: duration, time
 * to the first token, time per output token. Exact: of each request of OpenAI's API, and each stream of tokens, one
 * record says that it has ended. Bounded; pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"

#define GENERATION_SERIES_MAX 256 /* further ones are counted with model and route "other" */

struct generation_metrics;
struct request_stream_record;

/* An empty table; the caller frees `*ret`. -ENOMEM. */
int generation_metrics_new(struct generation_metrics **ret);
void generation_metrics_free(struct generation_metrics *m);
DEFINE_FREEP(generation_metrics)

/* Counts a record with REQUEST_STREAM_ENDED, if it is of a generation: a request of OpenAI's API to generate, or a
 * stream with tokens. A model is a label from its first successful request on: names that clients invent are not.
 * Without memory the request is not counted. */
void generation_metrics_record(struct generation_metrics *m, const char *service,
                               const struct request_stream_record *record);

/* Adds gen_ai_server_request_duration_seconds, gen_ai_server_time_to_first_token_seconds and
 * gen_ai_server_time_per_output_token_seconds. */
void generation_metrics_write(const struct generation_metrics *m, struct metric_set *set);
