/* OTEL_EXPORTER_OTLP_... of the environment: see config.h. One set of headers, certificates and protocol serves all
 * endpoints, so a variable of one signal that differs from it disables the environment's endpoint of that signal: data
 * must not go out with the wrong identity. */
#include "config/config_private.h"

#include "otlp/settings.h"
#include "otlp/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE_BYTES 64

static const struct environment_signal {
    enum otlp_signal signal;
    const char *name; /* in variables */
    const char *key;
} signals[] = {
    {OTLP_SIGNAL_PROFILES, "PROFILES", "otlp.profiles_endpoint"},
    {OTLP_SIGNAL_METRICS, "METRICS", "otlp.metrics_endpoint"},
    {OTLP_SIGNAL_TRACES, "TRACES", "otlp.traces_endpoint"},
    {OTLP_SIGNAL_LOGS, "LOGS", "otlp.logs_endpoint"},
};

static bool has_endpoint(struct config *c)
{
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (config_endpoint(c, signals[i].signal)[0])
            return true;
    return false;
}

/* A partial configuration could send data to the wrong place or with the wrong identity. */
static void drop_endpoints(struct config *c)
{
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        config_endpoint(c, signals[i].signal)[0] = '\0';
}

/* The value of the signal's variable. NULL: not set. */
static const char *own_variable(const struct environment_signal *s, const char *name, char ret_variable[VARIABLE_BYTES])
{
    snprintf(ret_variable, VARIABLE_BYTES, "OTEL_EXPORTER_OTLP_%s_%s", s->name, name);
    const char *value = getenv(ret_variable);
    return value && *value ? value : NULL;
}

/* The variable that has the value: the signal's own, or the one of all signals. */
static void name_variable(const struct environment_signal *s, const char *name, char ret[VARIABLE_BYTES])
{
    if (!own_variable(s, name, ret))
        snprintf(ret, VARIABLE_BYTES, "OTEL_EXPORTER_OTLP_%s", name);
}

/* OTEL_TRACES_EXPORTER=none and its like. */
static bool is_disabled(const struct environment_signal *s)
{
    char variable[VARIABLE_BYTES];
    snprintf(variable, sizeof(variable), "OTEL_%s_EXPORTER", s->name);
    const char *value = getenv(variable);
    return value && strcmp(value, "none") == 0;
}

static void set_endpoint(struct config *c, const struct environment_signal *s, char *error)
{
    char variable[VARIABLE_BYTES], message[CONFIG_ERROR_BYTES];
    char *endpoint = otlp_settings_endpoint(s->signal);
    name_variable(s, "ENDPOINT", variable);
    if (endpoint && endpoint[0] && !is_disabled(s) && config_set_value(c, variable, s->key, endpoint, message) < 0) {
        config_endpoint(c, s->signal)[0] = '\0';
        memcpy(error, message, CONFIG_ERROR_BYTES);
    }
    free(endpoint);
}

/* Disables an endpoint that the protocol cannot use and reports why: a URL valid for HTTP may be invalid for gRPC. */
static void check_endpoint(struct config *c, const struct environment_signal *s, char *error)
{
    char variable[VARIABLE_BYTES];
    const char *why = "";
    char *endpoint = config_endpoint(c, s->signal);
    if (!endpoint[0] || otlp_transport_check_url(endpoint, config_is_grpc(c), &why) == 0)
        return;
    name_variable(s, "ENDPOINT", variable);
    snprintf(error, CONFIG_ERROR_BYTES, "%s: %s", variable, why);
    endpoint[0] = '\0';
}

/* Disables the endpoint of a signal whose own variables differ from the shared settings. */
static void check_own_variables(struct config *c, const struct environment_signal *s,
                                const struct otlp_settings *shared, char *error)
{
    const struct {
        const char *name, *shared;
    } variables[] = {
        {"HEADERS", shared->headers},         {"PROTOCOL", shared->protocol == OTLP_GRPC ? "grpc" : "http/protobuf"},
        {"CERTIFICATE", shared->certificate}, {"CLIENT_CERTIFICATE", shared->client_certificate},
        {"CLIENT_KEY", shared->client_key},
    };
    char variable[VARIABLE_BYTES];
    for (size_t i = 0; config_endpoint(c, s->signal)[0] && i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *own = own_variable(s, variables[i].name, variable);
        if (!own || strcmp(own, variables[i].shared) == 0)
            continue;
        snprintf(error, CONFIG_ERROR_BYTES,
                 "%s: Sonde shares one value among all signals; set OTEL_EXPORTER_OTLP_%s, or the endpoint in its file",
                 variable, variables[i].name);
        config_endpoint(c, s->signal)[0] = '\0';
    }
}

static void set_shared(struct config *c, const char *variable, const char *key, const char *value, char *error)
{
    char where[VARIABLE_BYTES];
    name_variable(&signals[0], variable, where);
    if (value[0] && config_set_value(c, where, key, value, error) < 0)
        drop_endpoints(c);
}

/* Credentials belong to the environment's endpoints only; without an endpoint they are ignored and not validated. */
static void inherit(struct config *c, const char *variable, const char *key, const char *value, char *error)
{
    if (!has_endpoint(c))
        return;
    set_shared(c, variable, key, value, error);
    config_mark_inherited(c, key);
}

/* The variables of profiles come first, then the shared variables. */
static void apply(struct config *c, const struct otlp_settings *s, char *error)
{
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        set_endpoint(c, &signals[i], error);
    inherit(c, "PROTOCOL", "otlp.protocol", s->protocol == OTLP_GRPC ? "grpc" : "http/protobuf", error);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (i)
            check_own_variables(c, &signals[i], s, error);
        check_endpoint(c, &signals[i], error);
    }
    inherit(c, "HEADERS", "otlp.headers", s->headers, error);
    inherit(c, "CLIENT_CERTIFICATE", "otlp.client_certificate", s->client_certificate, error);
    inherit(c, "CLIENT_KEY", "otlp.client_key", s->client_key, error);
    set_shared(c, "CERTIFICATE", "otlp.certificate", s->certificate, error);
    set_shared(c, "COMPRESSION", "otlp.compression", s->uncompressed ? "none" : "", error);
    c->otlp_timeout_ms = s->timeout_ms;
    if (!has_endpoint(c))
        config_drop_inherited(c);
}

/* Of this node; as for OpenTelemetry's SDKs, OTEL_SERVICE_NAME takes precedence over service.name. */
static void apply_resource(struct config *c, char *error)
{
    const char *attributes = getenv("OTEL_RESOURCE_ATTRIBUTES"), *name = getenv("OTEL_SERVICE_NAME");
    const bool has_name = name && *name && !strpbrk(name, ",%");
    char list[sizeof(c->otlp_resource_attributes)], message[CONFIG_ERROR_BYTES];
    const int bytes = snprintf(list, sizeof(list), "%s%s%s%s", has_name ? "service.name=" : "", has_name ? name : "",
                               has_name && attributes && *attributes ? "," : "", attributes ? attributes : "");
    if (bytes < (int)sizeof(list) &&
        config_set_value(c, "OTEL_RESOURCE_ATTRIBUTES", "otlp.resource_attributes", list, message) == 0)
        return;
    snprintf(error, CONFIG_ERROR_BYTES, "OTEL_RESOURCE_ATTRIBUTES: not a list of at most 16 name=value");
}

void config_environment(struct config *c, char error[CONFIG_ERROR_BYTES])
{
    struct otlp_settings s;
    error[0] = '\0';
    apply_resource(c, error);
    if (otlp_settings_read(&s, OTLP_SIGNAL_PROFILES) < 0)
        snprintf(error, CONFIG_ERROR_BYTES, "OTEL_EXPORTER_OTLP_...: out of memory");
    else
        apply(c, &s, error);
    otlp_settings_free(&s);
}
