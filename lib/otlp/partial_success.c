/* See partial_success.h. Untrusted bytes: unknown fields are ignored. */
#include "partial_success.h"

#include "wire.h"

#include <stdio.h>

/* Field numbers of trace_service.proto, metrics_service.proto and profiles_service.proto, which are the same. */
enum { RESPONSE_PARTIAL_SUCCESS = 1 };
enum { PARTIAL_REJECTED = 1, PARTIAL_MESSAGE = 2 };

void otlp_keep_words(char why[OTLP_PARTIAL_WHY_SIZE], const void *text, size_t size)
{
    snprintf(why, OTLP_PARTIAL_WHY_SIZE, "%.*s", size < OTLP_PARTIAL_WHY_SIZE ? (int)size : OTLP_PARTIAL_WHY_SIZE,
             (const char *)text);
    for (char *p = why; *p; p++)
        if ((unsigned char)*p < ' ') /* safe to log */
            *p = ' ';
}

static uint64_t read_response(struct otlp_bytes response, char *why)
{
    uint64_t rejected = 0;
    struct otlp_field f;
    while (otlp_read_field(&response, &f)) {
        if (f.number != RESPONSE_PARTIAL_SUCCESS || f.wire != OTLP_BYTES)
            continue;
        struct otlp_bytes partial = f.bytes;
        while (otlp_read_field(&partial, &f)) {
            if (f.number == PARTIAL_REJECTED && f.wire == OTLP_VARINT)
                rejected = f.integer <= INT64_MAX ? f.integer : 0;
            else if (f.number == PARTIAL_MESSAGE && f.wire == OTLP_BYTES)
                otlp_keep_words(why, f.bytes.at, (size_t)(f.bytes.end - f.bytes.at));
        }
    }
    return rejected;
}

uint64_t otlp_partial_success(const char *body, size_t size, char ret_why[OTLP_PARTIAL_WHY_SIZE])
{
    *ret_why = '\0';
    if (!body || size == 0)
        return 0;
    return read_response((struct otlp_bytes){(const unsigned char *)body, (const unsigned char *)body + size}, ret_why);
}
