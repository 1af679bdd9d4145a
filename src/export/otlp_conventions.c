/* See otlp_conventions.h. */
#include "export/otlp_conventions.h"

#include <stddef.h>
#include <string.h>

struct name {
    const char *prometheus, *otlp;
    bool is_number;
};

/* A protocol's metric of requests has its line here, and its labels below. */
static const struct name metrics[] = {
    {"http_server_request_duration_seconds", "http.server.request.duration", false},
    {"rpc_server_call_duration_seconds", "rpc.server.call.duration", false},
    {"gen_ai_server_request_duration_seconds", "gen_ai.server.request.duration", false},
    {"gen_ai_server_time_to_first_token_seconds", "gen_ai.server.time_to_first_token", false},
    {"gen_ai_server_time_per_output_token_seconds", "gen_ai.server.time_per_output_token", false},
    {"hw_energy_joules", "hw.energy", false},
    {"hw_errors", "hw.errors", false},
    {"hw_gpu_io_bytes", "hw.gpu.io", false},
    {"hw_gpu_memory_limit_bytes", "hw.gpu.memory.limit", false},
    {"hw_gpu_memory_usage_bytes", "hw.gpu.memory.usage", false},
    {"hw_gpu_utilization_ratio", "hw.gpu.utilization", false},
    {"hw_power_watts", "hw.power", false},
    {"hw_status", "hw.status", false},
    {"hw_temperature_celsius", "hw.temperature", false},
};

static const struct name attributes[] = {
    {"http_request_method", "http.request.method", false},
    {"http_route", "http.route", false},
    {"http_response_status_code", "http.response.status_code", true},
    {"url_scheme", "url.scheme", false},
    {"gen_ai_operation_name", "gen_ai.operation.name", false},
    {"gen_ai_provider_name", "gen_ai.provider.name", false},
    {"gen_ai_request_model", "gen_ai.request.model", false},
    {"rpc_system_name", "rpc.system.name", false},
    {"rpc_method", "rpc.method", false},
    {"rpc_response_status_code", "rpc.response.status_code", false},
    {"error_type", "error.type", false},
    {"hw_gpu_task", "hw.gpu.task", false},
    {"hw_id", "hw.id", false},
    {"hw_name", "hw.name", false},
    {"hw_sensor_location", "hw.sensor_location", false},
    {"hw_state", "hw.state", false},
    {"hw_type", "hw.type", false},
    {"network_io_direction", "network.io.direction", false},
};

static const struct name *find_name(const struct name *names, size_t count, const char *prometheus)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i].prometheus, prometheus) == 0)
            return &names[i];
    return NULL;
}

const char *otlp_convention_metric(const char *family)
{
    const struct name *found = find_name(metrics, sizeof(metrics) / sizeof(metrics[0]), family);
    return found ? found->otlp : NULL;
}

const char *otlp_convention_attribute(const char *label, bool *ret_is_number)
{
    const struct name *found = find_name(attributes, sizeof(attributes) / sizeof(attributes[0]), label);
    *ret_is_number = found && found->is_number;
    return found ? found->otlp : label;
}
