/* See settings.h. An invalid value counts as not set, so that a server starts although its environment was made for
 * another library. */
#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VALUE_SIZE_MAX 65536
#define TIMEOUT_MAX_MS 600000

static const char *const signals[] = {"TRACES_", "METRICS_", "PROFILES_", "LOGS_"};
static const char *const paths[] = {"/v1/traces", "/v1/metrics", "/v1development/profiles", "/v1/logs"}; /* of HTTP */

/* The value of OTEL_EXPORTER_OTLP_METRICS_X, or OTEL_EXPORTER_OTLP_X; "": neither is set. */
static const char *find_variable(const char *signal, const char *name)
{
    char variable[64];
    snprintf(variable, sizeof(variable), "OTEL_EXPORTER_OTLP_%s%s", signal, name);
    const char *value = getenv(variable);
    if ((!value || !*value) && *signal)
        return find_variable("", name);
    return value && strlen(value) <= VALUE_SIZE_MAX ? value : "";
}

/* Profiles support only protobuf; the default of the other signals is JSON. */
static enum otlp_protocol find_protocol(enum otlp_signal signal)
{
    const char *text = find_variable(signals[signal], "PROTOCOL");
    if (strcasecmp(text, "grpc") == 0)
        return OTLP_GRPC;
    return signal == OTLP_SIGNAL_PROFILES || strcasecmp(text, "http/protobuf") == 0 ? OTLP_HTTP_PROTOBUF
                                                                                    : OTLP_HTTP_JSON;
}

/* A gRPC endpoint may be just host and port, which means TLS unless the INSECURE variable is set. */
static char *find_grpc_endpoint(enum otlp_signal signal, const char *endpoint)
{
    char *joined;
    if (!*endpoint || strstr(endpoint, "://"))
        return strdup(endpoint);
    const bool is_insecure = strcasecmp(find_variable(signals[signal], "INSECURE"), "true") == 0;
    return asprintf(&joined, "%s://%s", is_insecure ? "http" : "https", endpoint) < 0 ? NULL : joined;
}

/* The signal's own variable; "": not set. */
static const char *find_own_endpoint(enum otlp_signal signal)
{
    char variable[64];
    snprintf(variable, sizeof(variable), "OTEL_EXPORTER_OTLP_%sENDPOINT", signals[signal]);
    const char *own = getenv(variable);
    return own && strlen(own) <= VALUE_SIZE_MAX ? own : "";
}

char *otlp_settings_endpoint(enum otlp_signal signal)
{
    const char *own = find_own_endpoint(signal), *base = find_variable("", "ENDPOINT");
    char *joined;
    if (find_protocol(signal) == OTLP_GRPC)
        return find_grpc_endpoint(signal, *own ? own : base);
    if (*own || !*base)
        return strdup(own);
    size_t size = strcspn(base, "?#");
    const char *rest = base + size;
    while (size > 0 && base[size - 1] == '/')
        size--;
    return asprintf(&joined, "%.*s%s%s", (int)size, base, paths[signal], rest) < 0 ? NULL : joined;
}

/* libsonde's traces and metrics have an endpoint of their own. */
static char *find_endpoint(enum otlp_signal signal)
{
    if (signal == OTLP_SIGNAL_PROFILES)
        return otlp_settings_endpoint(signal);
    const char *own = signal == OTLP_SIGNAL_METRICS ? find_own_endpoint(signal) : "";
    return find_protocol(signal) == OTLP_GRPC ? find_grpc_endpoint(signal, own) : strdup(own);
}

static uint32_t find_timeout_ms(const char *signal)
{
    const char *text = find_variable(signal, "TIMEOUT");
    char *end;
    errno = 0;
    unsigned long value = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    return value > 0 && !errno && !*end && value <= TIMEOUT_MAX_MS ? (uint32_t)value : OTLP_TIMEOUT_MS;
}

int otlp_settings_read(struct otlp_settings *c, enum otlp_signal signal)
{
    *c = (struct otlp_settings){.endpoint = find_endpoint(signal),
                                .headers = strdup(find_variable(signals[signal], "HEADERS")),
                                .certificate = strdup(find_variable(signals[signal], "CERTIFICATE")),
                                .client_certificate = strdup(find_variable(signals[signal], "CLIENT_CERTIFICATE")),
                                .client_key = strdup(find_variable(signals[signal], "CLIENT_KEY")),
                                .timeout_ms = find_timeout_ms(signals[signal]),
                                .protocol = find_protocol(signal),
                                .gzip = strcasecmp(find_variable(signals[signal], "COMPRESSION"), "gzip") == 0,
                                .uncompressed = strcasecmp(find_variable(signals[signal], "COMPRESSION"), "none") == 0};
    return c->endpoint && c->headers && c->certificate && c->client_certificate && c->client_key ? 0 : -ENOMEM;
}

int otlp_settings_copy(struct otlp_settings *to, const struct otlp_settings *from)
{
    *to = *from;
    to->endpoint = strdup(from->endpoint);
    to->headers = strdup(from->headers);
    to->certificate = strdup(from->certificate);
    to->client_certificate = strdup(from->client_certificate);
    to->client_key = strdup(from->client_key);
    return to->endpoint && to->headers && to->certificate && to->client_certificate && to->client_key ? 0 : -ENOMEM;
}

void otlp_settings_free(struct otlp_settings *c)
{
    free(c->endpoint);
    free(c->headers);
    free(c->certificate);
    free(c->client_certificate);
    free(c->client_key);
}

void otlp_url_shown(const char *url, char ret[OTLP_URL_SHOWN_SIZE])
{
    const char *at = strrchr(url, '@'), *scheme = strstr(url, "://");
    const char *host = at ? at + 1 : url;
    int scheme_size = at && scheme && scheme < at ? (int)(scheme + 3 - url) : 0;
    snprintf(ret, OTLP_URL_SHOWN_SIZE, "%.*s%.*s", scheme_size, url, (int)strcspn(host, "?#"), host);
}
