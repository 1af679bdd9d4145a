/* See request_stream.h. */
#include "model/request_stream.h"

#include "base/units.h"

#include <stdio.h>

uint32_t request_stream_count(const struct request_stream *s)
{
    return !s->tokens ? s->chunks : s->usage ? s->usage : s->tokens;
}

uint64_t request_stream_step_ns(const struct request_stream *s)
{
    const uint32_t count = request_stream_count(s);
    return count > 1 && s->last_ns > s->first_ns ? (s->last_ns - s->first_ns) / (count - 1) : 0;
}

const char *request_stream_text(const struct request_stream *s, char out[REQUEST_STREAM_TEXT_BYTES])
{
    const char *unit = request_stream_has_tokens(s) ? "token" : "chunk";
    const uint32_t count = request_stream_count(s);
    const uint64_t step_ns = request_stream_step_ns(s);
    char first[32], step[32];
    out[0] = '\0';
    if (!count)
        return out;
    int used = snprintf(out, REQUEST_STREAM_TEXT_BYTES, "%s %s after %s", s->is_late ? "a" : "first", unit,
                        units_format_duration(s->first_ns, first, sizeof(first)));
    if (step_ns)
        used += snprintf(out + used, REQUEST_STREAM_TEXT_BYTES - (size_t)used, ", then %s per %s",
                         units_format_duration(step_ns, step, sizeof(step)), unit);
    snprintf(out + used, REQUEST_STREAM_TEXT_BYTES - (size_t)used, ", %s%u %s%s",
             s->is_late || s->is_incomplete ? "at least " : "", count, unit, count > 1 ? "s" : "");
    return out;
}
