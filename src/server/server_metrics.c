/* The server's own metrics; see server_metrics.h. */
#include "server/server_metrics.h"

#include "export/openmetrics.h"

static void add_rate_limited(struct metric_set *set, const char *interface, struct rate_limit *limit)
{
    metric_add(set, "sonde_server_rate_limited_requests", METRIC_COUNTER, "",
               "Requests that were refused because their client made too many.", (double)rate_limit_refused(limit),
               METRIC_LABELS({"interface", interface}));
}

/* The default tenant's have no label. */
static void add_spool(struct metric_set *set, const struct tenant *tenant)
{
    const struct spool_statistics now = spool_statistics(tenant->spool);
    const struct metric_label labels[] = {{"tenant", tenant->name}};
    const size_t count = tenant->name[0] ? array_size(labels) : 0;
    metric_add(set, "sonde_server_spool_bytes", METRIC_GAUGE, "bytes", "Size of the spool's segments.",
               (double)now.bytes, labels, count);
    metric_add(set, "sonde_server_spool_segments", METRIC_GAUGE, "", "Segments that the engine does not have yet.",
               (double)now.segments, labels, count);
    metric_add(set, "sonde_server_spool_refused_segments", METRIC_GAUGE, "",
               "Segments that were set aside, because the engine refuses them or they are damaged.",
               (double)now.set_aside, labels, count);
}

enum MHD_Result server_metrics_answer(const struct server_metrics *m, const struct listener_request *request)
{
    const bool openmetrics = openmetrics_accepted(http_header(request->connection, "Accept"));
    const struct http_reply reply = {.status = MHD_HTTP_OK, .content_type = openmetrics_content_type(openmetrics)};
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    _cleanup_buf_ struct buf out = {0};
    if (metric_set_new(&set) < 0)
        return MHD_NO;
    add_rate_limited(set, "otlp", m->senders);
    add_rate_limited(set, "sql", m->askers);
    add_rate_limited(set, "login", m->sign_ins);
    for (size_t i = 0; i < m->tenant_count; i++)
        add_spool(set, m->tenants[i]);
    return openmetrics_write(set, openmetrics, &out) < 0 ? MHD_NO : http_reply_buf(request->connection, &reply, &out);
}
