/* The server's own metrics at /metrics, for Prometheus. */
#pragma once

#include "server/listener.h"
#include "server/rate_limit.h"

enum MHD_Result server_metrics_answer(struct rate_limit *senders, struct rate_limit *askers,
                                      const struct listener_request *request);
