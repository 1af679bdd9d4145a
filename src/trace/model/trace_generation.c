/* Generations of tokens; see trace_generation.h. */
#include "trace/model/trace_generation.h"

#include <string.h>

/* A generation ends when as many have ended as began. */
struct reading {
    struct trace_generation *g;
    unsigned open;
};

static void process_moment(struct reading *r, const struct triton_moment *m, const char *name)
{
    struct trace_generation *g = r->g;
    if (strcmp(name, "GENERATION_START") == 0) {
        g->is_mixed |= r->open > 0;
        if (r->open++ == 0)
            g->begin_ns = m->ns;
    } else if (r->open > 0 && m->tokens) {
        if (!g->has_first)
            g->first_ns = m->ns;
        g->has_first = true;
        g->tokens += m->tokens;
    } else if (r->open > 0 && strcmp(name, "GENERATION_END") == 0) {
        g->end_ns = m->ns;
        g->has_end = --r->open == 0;
    }
}

bool trace_generation_next(const struct triton_trace *trace, const struct strings *names, uint32_t *at,
                           struct trace_generation *ret)
{
    struct trace_generation g = {0};
    struct reading r = {&g, 0};
    bool found = false;
    while (*at < trace->moment_count && !g.has_end) {
        const struct triton_moment *m = &trace->moments[(*at)++];
        if (m->event < TRITON_EVENT_COUNT)
            continue;
        process_moment(&r, m, strings_get(names, m->event - TRITON_EVENT_COUNT));
        found |= r.open > 0;
    }
    if (found)
        *ret = g;
    return found;
}

uint64_t trace_generation_count(const struct triton_trace *trace, const struct strings *names)
{
    struct trace_generation g;
    uint64_t count = 0;
    for (uint32_t at = 0; trace_generation_next(trace, names, &at, &g);)
        count++;
    return count;
}

bool trace_generation_first_token(const struct trace_generation *g, uint64_t *ret_ns)
{
    if (!g->has_first || g->is_mixed || g->first_ns < g->begin_ns)
        return false;
    *ret_ns = g->first_ns - g->begin_ns;
    return true;
}

bool trace_generation_per_token(const struct trace_generation *g, uint64_t tokens, uint64_t *ret_ns)
{
    if (!g->has_first || !g->has_end || g->is_mixed || tokens < 2 || g->end_ns < g->first_ns)
        return false;
    *ret_ns = (g->end_ns - g->first_ns) / (tokens - 1);
    return true;
}

uint64_t trace_generation_tokens(const struct triton_trace *trace, const struct trace_generation *g, bool is_only)
{
    const struct triton_facts *facts = trace->facts;
    bool is_known = is_only && facts && facts->has_generation && facts->tokens[TRITON_OUTPUT_TOKENS] >= 0;
    return is_known ? (uint64_t)facts->tokens[TRITON_OUTPUT_TOKENS] : g->tokens;
}
