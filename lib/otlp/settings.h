/* What OTEL_EXPORTER_OTLP_... say of the export of a signal: those of the signal itself win over those of all
 * signals. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum otlp_signal { OTLP_SIGNAL_TRACES, OTLP_SIGNAL_METRICS, OTLP_SIGNAL_PROFILES };

enum otlp_protocol {
    OTLP_HTTP_JSON, /* as Triton sends traces, where nobody says otherwise */
    OTLP_HTTP_PROTOBUF,
    OTLP_GRPC
};

#define OTLP_TIMEOUT_MS 10000 /* of one post, when nobody says */

/* Texts are never NULL once it is read; "": not said. */
struct otlp_settings {
    char
        *endpoint;     /* OTEL_EXPORTER_OTLP_METRICS_ENDPOINT; of traces Triton's option `url` decides. Of
                          profiles also the one of all signals, with the path of profiles behind it unless that is gRPC's */
    char *headers;     /* "name=value,..." */
    char *certificate; /* a file of those that are trusted */
    char *client_certificate, *client_key; /* files of who we are */
    uint32_t timeout_ms;
    enum otlp_protocol protocol;
    bool gzip, uncompressed; /* said to be "gzip", or "none" */
};

/* -ENOMEM, half read: to be freed all the same. */
int otlp_settings_read(struct otlp_settings *c, enum otlp_signal signal);
int otlp_settings_copy(struct otlp_settings *to, const struct otlp_settings *from);
void otlp_settings_free(struct otlp_settings *c);

#define OTLP_URL_SHOWN_SIZE 256

/* An URL as messages say it: without user and password, without what follows a `?`; cut to its place. Passwords
 * that nobody encoded hold any of `/?#`: better a path is missing than a part of one shown. */
void otlp_url_shown(const char *url, char ret[OTLP_URL_SHOWN_SIZE]);
