/* The traced request that something belongs to: W3C IDs, as numbers whose hexadecimal form is the ID. Plain data. */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct trace_link {
    uint64_t trace_id_high, trace_id_low; /* both 0: none */
    uint64_t span_id;                     /* 0: unknown */
};

static inline bool trace_link_is_set(const struct trace_link *l)
{
    return l->trace_id_high || l->trace_id_low;
}

/* In W3C's format; "" for an unset ID. */
struct trace_link_text {
    char trace_id[33], span_id[17];
};

static inline struct trace_link_text trace_link_text(const struct trace_link *l)
{
    struct trace_link_text text = {0};
    if (trace_link_is_set(l))
        snprintf(text.trace_id, sizeof(text.trace_id), "%016" PRIx64 "%016" PRIx64, l->trace_id_high, l->trace_id_low);
    if (l->span_id)
        snprintf(text.span_id, sizeof(text.span_id), "%016" PRIx64, l->span_id);
    return text;
}
