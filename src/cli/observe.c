/* See observe.h: a pipeline with the signals that requests need. */
#include "cli/observe.h"

#include "aggregate/opaque_ports.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "pipeline/loop.h"
#include "pipeline/pipeline.h"
#include "sources/attach/privileges.h"

struct observation {
    struct requests *requests;
    struct opaque_ports *opaque_ports;
};

static int take_request(void *context, struct request *request)
{
    return requests_add(((struct observation *)context)->requests, request);
}

static void take_opaque(void *context, const struct opaque_traffic *traffic)
{
    opaque_ports_add(((struct observation *)context)->opaque_ports, traffic);
}

int observe_requests(uint64_t duration_ns, struct requests *requests, struct coverage *ret_coverage)
{
    struct config config;
    config_defaults(&config);
    config_enable_signals(&config, false);
    config_put_bool(&config, "requests.enabled", true);
    config_put_bool(&config, "recorder.enabled", true);
    struct pipeline_options options = {
        .config = &config, .sample_hz = CONFIG_RATE_HZ, .memory_bytes = OBSERVE_MEMORY_BYTES};
    _cleanup_(opaque_ports_freep) struct opaque_ports *opaque_ports = NULL;
    int r = opaque_ports_new(&opaque_ports);
    if (r < 0)
        return r;
    struct observation observation = {requests, opaque_ports};
    struct pipeline_sink sink = {.context = &observation, .request = take_request, .opaque = take_opaque};
    struct attach_report report = {0};
    _cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
    r = pipeline_new(&options, &sink, &report, &pipeline);
    if (r < 0) {
        for (size_t i = 0; i < report.count; i++)
            if (!report.entries[i].attached)
                log_error("%s: not attached (%s)", report.entries[i].probe, report.entries[i].fallback_reason);
        privileges_explain();
        return r;
    }
    const uint64_t start_ns = clock_monotonic_ns();
    r = pipeline_start(pipeline);
    if (r < 0)
        return r;
    _cleanup_(loop_freep) struct loop *loop = NULL;
    r = loop_new(pipeline, LOOP_OF_COMMAND, &loop);
    if (r < 0)
        return r;
    char duration[32];
    log_info("no agent is running: observing requests for %s (Ctrl-C stops earlier)",
             units_format_duration(duration_ns, duration, sizeof(duration)));
    struct loop_end end;
    r = loop_run(loop, &(struct loop_options){.duration_ns = duration_ns}, &end);
    const uint64_t now_ns = clock_monotonic_ns();
    *ret_coverage = (struct coverage){.asked_ns = now_ns - start_ns, .observed_ns = now_ns - start_ns};
    ret_coverage->port_count = opaque_ports_list(opaque_ports, start_ns, now_ns, ret_coverage->ports,
                                                 COVERAGE_PORTS_MAX, &ret_coverage->ports_omitted);
    return r;
}
