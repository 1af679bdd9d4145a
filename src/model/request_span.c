/* See request_span.h. */
#include "model/request_span.h"

#include "base/hex.h"

#define TRACEPARENT_BYTES 55 /* "00-<32 digits>-<16 digits>-<2 digits>" */

/* Parses `digits` lower-case hexadecimal digits, 16 at most. */
static bool parse_hex(const char *text, size_t digits, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < digits; i++) {
        const int digit = text[i] >= 'A' && text[i] <= 'F' ? -1 : hex_value(text[i]);
        if (digit < 0)
            return false;
        *ret = *ret << 4 | (uint64_t)digit;
    }
    return true;
}

bool traceparent_parse(const char *text, size_t bytes, struct traceparent *ret)
{
    struct traceparent p = {0};
    uint64_t version, flags;
    if (bytes < TRACEPARENT_BYTES || text[2] != '-' || text[35] != '-' || text[52] != '-')
        return false;
    if (!parse_hex(text, 2, &version) || !parse_hex(text + 3, 16, &p.caller.trace_id_high) ||
        !parse_hex(text + 19, 16, &p.caller.trace_id_low) || !parse_hex(text + 36, 16, &p.caller.span_id) ||
        !parse_hex(text + 53, 2, &flags))
        return false;
    if (version == 0xff || !trace_link_is_set(&p.caller) || !p.caller.span_id)
        return false;
    p.is_sampled = flags & 1;
    *ret = p;
    return true;
}

/* SplitMix64's mixing function: a bijection. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

struct request_span request_span_make(const struct span_seed *seed, uint64_t request_id,
                                      const struct traceparent *caller, const struct trace_link *own)
{
    struct request_span span = {0};
    if (!seed->high && !seed->low)
        return span;
    const uint64_t high = mix(request_id ^ seed->high), low = mix(high ^ seed->low);
    span.id.span_id = mix(low ^ seed->high) | 1; /* never 0 */
    span.id.trace_id_high = high;
    span.id.trace_id_low = low | 1;
    if (caller || trace_link_is_set(own)) {
        const struct trace_link *parent = caller ? &caller->caller : own;
        span.id.trace_id_high = parent->trace_id_high;
        span.id.trace_id_low = parent->trace_id_low;
        span.parent_id = parent->span_id;
    }
    span.is_remote = caller;
    span.is_unsampled = caller && !caller->is_sampled;
    return span;
}
