/* The server's own metrics at /metrics, for Prometheus. */
#pragma once

#include "server/listener.h"
#include "server/rate_limit.h"
#include "server/tenant.h"

struct server_metrics {
    struct rate_limit *senders, *askers, *sign_ins;
    struct tenant *const *tenants;
    size_t tenant_count;
};

enum MHD_Result server_metrics_answer(const struct server_metrics *m, const struct listener_request *request);
