/* See observe.h: a pipeline with the signals that requests need. */
#include "cli/observe.h"

#include "agent/loop.h"
#include "agent/pipeline.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/privileges.h"

static int take_request(void *context, struct request *request)
{
    return requests_add(context, request);
}

int observe_requests(uint64_t duration_ns, struct requests *requests)
{
    struct config config;
    config_defaults(&config);
    config_enable_signals(&config, false);
    config_put_bool(&config, "requests.enabled", true);
    config_put_bool(&config, "recorder.enabled", true);
    struct pipeline_options options = {
        .config = &config, .sample_hz = CONFIG_RATE_HZ, .memory_bytes = OBSERVE_MEMORY_BYTES};
    struct pipeline_sink sink = {.context = requests, .request = take_request};
    struct attach_report report = {0};
    _cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
    int r = pipeline_new(&options, &sink, &report, &pipeline);
    if (r < 0) {
        for (size_t i = 0; i < report.count; i++)
            if (!report.entries[i].attached)
                log_error("%s: not attached (%s)", report.entries[i].probe, report.entries[i].fallback_reason);
        privileges_explain();
        return r;
    }
    r = pipeline_start(pipeline);
    if (r < 0)
        return r;
    _cleanup_(loop_freep) struct loop *loop = NULL;
    r = loop_new(pipeline, &loop);
    if (r < 0)
        return r;
    char duration[32];
    log_info("no agent is running: observing requests for %s (Ctrl-C stops earlier)",
             units_format_duration(duration_ns, duration, sizeof(duration)));
    struct loop_end end;
    return loop_run(loop, &(struct loop_options){.duration_ns = duration_ns}, &end);
}
