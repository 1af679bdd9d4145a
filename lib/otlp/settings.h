/* Reads OTEL_EXPORTER_OTLP_... for the export of a signal: variables of the signal override the variables of all
 * signals. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum otlp_signal { OTLP_SIGNAL_TRACES, OTLP_SIGNAL_METRICS, OTLP_SIGNAL_PROFILES, OTLP_SIGNAL_LOGS };

enum otlp_protocol {
    OTLP_HTTP_JSON, /* the default for traces, as in Triton */
    OTLP_HTTP_PROTOBUF,
    OTLP_GRPC
};

#define OTLP_TIMEOUT_MS 10000 /* default timeout of one POST */

/* Strings are never NULL after otlp_settings_read; "": not set. */
struct otlp_settings {
    char *endpoint;    /* OTEL_EXPORTER_OTLP_METRICS_ENDPOINT; not for traces (Triton's option `url`); for profiles
                        * also OTEL_EXPORTER_OTLP_ENDPOINT with the path of profiles appended, except for gRPC */
    char *headers;     /* "name=value,..." */
    char *certificate; /* file of trusted CA certificates */
    char *client_certificate, *client_key; /* files of the client certificate and its key */
    uint32_t timeout_ms;
    enum otlp_protocol protocol;
    bool gzip, uncompressed; /* compression is set to "gzip", or to "none" */
};

/* Reads the settings. -ENOMEM: incomplete, but must be freed all the same. */
int otlp_settings_read(struct otlp_settings *c, enum otlp_signal signal);
/* The endpoint of a signal by the rules of OpenTelemetry: its own variable as it is, else OTEL_EXPORTER_OTLP_ENDPOINT,
 * for HTTP with the path of the signal appended; "": neither is set. The caller frees it. NULL: no memory. */
char *otlp_settings_endpoint(enum otlp_signal signal);
int otlp_settings_copy(struct otlp_settings *to, const struct otlp_settings *from);
void otlp_settings_free(struct otlp_settings *c);

#define OTLP_URL_SHOWN_SIZE 256

/* A URL for messages: without user, password and query, truncated to the buffer. Passwords without percent-encoding
 * may contain `/?#`: rather a path is omitted than part of a password shown. */
void otlp_url_shown(const char *url, char ret[OTLP_URL_SHOWN_SIZE]);
