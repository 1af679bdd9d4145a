/* JSON of an interval of `sonde gpu`, documented in sonde-gpu(1); see gpu_text.h. */
#include "cli/gpu/gpu_text.h"

#include "base/cleanup.h"

#include <inttypes.h>

static void put_text(const char *key, const char *text, struct buf *out)
{
    if (!text[0])
        return;
    buf_printf(out, ",\"%s\":", key);
    buf_put_json_string(out, text);
}

static void put_device(const struct gpu_view *view, const struct gpu_device *d, struct buf *out)
{
    static const struct {
        const char *key;
        enum gpu_value value;
        double factor;
    } values[] = {{"utilization", GPU_UTILIZATION, 0.01},    {"engine_active", GPU_ENGINE_ACTIVE, 0.0001},
                  {"memory_used_bytes", GPU_MEMORY_USED, 1}, {"memory_total_bytes", GPU_MEMORY_TOTAL, 1},
                  {"power_watts", GPU_POWER, 0.001},         {"temperature_celsius", GPU_TEMPERATURE, 1},
                  {"sm_clock_hertz", GPU_CLOCK_SM, 1e6}};
    char verdict[GPU_VERDICT_BYTES];
    uint64_t value;
    buf_printf(out, "{\"gpu\":%" PRIu32, d->index);
    if (d->instance != GPU_NO_INSTANCE)
        buf_printf(out, ",\"gpu_instance\":%" PRIu32, d->instance);
    put_text("hw_id", d->uuid, out);
    put_text("name", d->name, out);
    put_text("pci_address", d->pci, out);
    for (size_t i = 0; i < array_size(values); i++)
        if (gpu_value_of(d, values[i].value, &value))
            buf_printf(out, ",\"%s\":%.15g", values[i].key, (double)value * values[i].factor);
    put_text("state", gpu_device_state_text(d), out);
    if (d->instance == GPU_NO_INSTANCE) {
        put_text("verdict", gpu_verdict_name(gpu_verdict_of(view, d, verdict)), out);
        put_text("verdict_text", verdict, out);
    }
    buf_putc(out, '}');
}

static void put_process(const struct gpu_view *view, const struct gpu_process *p, struct buf *out)
{
    static const struct {
        const char *key;
        enum agent_gpu_count count;
    } rates[] = {{"launches_per_second", AGENT_GPU_LAUNCHES},
                 {"graph_launches_per_second", AGENT_GPU_GRAPH_LAUNCHES},
                 {"copies_per_second", AGENT_GPU_COPIES},
                 {"allocations_per_second", AGENT_GPU_ALLOCATIONS},
                 {"waiting_threads", AGENT_GPU_WAIT_SECONDS}};
    char command[GPU_COMMAND_BYTES];
    double rate;
    buf_printf(out, "{\"gpu\":%" PRIu32 ",\"pid\":%" PRIu32, p->device, p->h.pid);
    if (p->instance != GPU_NO_INSTANCE)
        buf_printf(out, ",\"gpu_instance\":%" PRIu32, p->instance);
    put_text("command", gpu_view_command(p->h.pid, command), out);
    put_text("service_name", gpu_view_service(view, p->h.pid), out);
    if (p->busy != UINT32_MAX)
        buf_printf(out, ",\"utilization\":%.15g", p->busy * 0.01);
    if (p->memory != UINT64_MAX)
        buf_printf(out, ",\"memory_bytes\":%" PRIu64, (uint64_t)p->memory);
    for (size_t i = 0; i < array_size(rates); i++)
        if (gpu_view_rate(view, p->h.pid, rates[i].count, &rate))
            buf_printf(out, ",\"%s\":%.6g", rates[i].key, rate);
    buf_putc(out, '}');
}

void gpu_text_put_json(const struct gpu_view *view, struct buf *out)
{
    buf_printf(out, "{\"interval_ns\":%" PRIu64, view->interval_ns);
    put_text("driver", view->driver, out);
    put_text("calls_missing", view->calls_missing, out);
    buf_puts(out, ",\"devices\":[");
    for (size_t i = 0; i < view->list->device_count; i++) {
        buf_puts(out, i ? "," : "");
        put_device(view, &view->list->devices[i], out);
    }
    buf_puts(out, "],\"processes\":[");
    for (size_t i = 0; i < view->list->process_count; i++) {
        buf_puts(out, i ? "," : "");
        put_process(view, &view->list->processes[i], out);
    }
    buf_printf(out, "],\"processes_omitted\":%" PRIu32 "}\n", gpu_view_omitted(view));
}
