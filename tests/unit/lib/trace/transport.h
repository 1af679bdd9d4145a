/* Transports without a network, for tests of mode opentelemetry: one that discards packets, and one that keeps them
 * and answers as scripted. */
#pragma once

#include "otlp/transport.h"

#include <errno.h>
#include <stdio.h>

/* As the HTTP transport does. */
static inline void answer_with(struct otlp_answer *answer, int status)
{
    answer->verdict = status == 200 ? OTLP_ACCEPTED : status == 429 || status >= 502 ? OTLP_BUSY : OTLP_REFUSED;
    snprintf(answer->why, sizeof(answer->why), "HTTP status %d", status);
}

static inline int discard_open(const struct otlp_transport_options *o, void **ret_connection, char *why,
                               size_t why_size)
{
    static char connection;
    (void)o, (void)why, (void)why_size;
    *ret_connection = &connection;
    return 0;
}

static inline int discard_post(void *connection, const void *data, size_t size, struct otlp_answer *ret_answer)
{
    (void)connection, (void)data, (void)size;
    ret_answer->verdict = OTLP_ACCEPTED;
    return 0;
}

static inline void discard_close(void *connection)
{
    (void)connection;
}

static const struct otlp_transport transport_to_nowhere = {OTLP_TRANSPORT_VERSION, discard_open, discard_post,
                                                           discard_close};
