/* Triton's request traces as plain data; see triton_trace.h. */
#include "trace/model/triton_trace.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define X(name) #name,
    TRITON_EVENTS(X)
#undef X
};

const char *triton_event_name(enum triton_event event)
{
    return event < TRITON_EVENT_COUNT ? names[event] : NULL;
}

/* Called for every moment of a file: sizes and strings are constants here, which leaves a few word comparisons. */
enum triton_event triton_event_find(struct triton_text name)
{
#define X(event)                                                                                                       \
    if (TRITON_TEXT_IS(name, #event))                                                                                  \
        return TRITON_##event;
    TRITON_EVENTS(X)
#undef X
    return TRITON_EVENT_COUNT;
}

void triton_times_get(const struct triton_trace *trace, struct triton_times *ret)
{
    ret->known = 0;
    for (uint32_t i = 0; i < trace->moment_count; i++) {
        uint32_t event = trace->moments[i].event;
        if (event < TRITON_EVENT_COUNT) {
            ret->ns[event] = trace->moments[i].ns;
            ret->known |= 1u << event;
        }
    }
}

/* ---- facts added by libsonde ---- */

const struct triton_fact_kind triton_fact_kinds[TRITON_FACT_COUNT] = {
#define X(name, key, attribute, is_list) {key, attribute, is_list},
    TRITON_FACTS(X)
#undef X
};

const struct triton_fact_kind triton_token_kinds[TRITON_TOKEN_COUNTS] = {
    {"input_tokens", "gen_ai.usage.input_tokens", false}, {"output_tokens", "gen_ai.usage.output_tokens", false}};

static int find_kind(const struct triton_fact_kind *kinds, int from, int count, struct triton_text name,
                     bool is_attribute)
{
    for (int i = from; i < count; i++) {
        const char *other = is_attribute ? kinds[i].attribute : kinds[i].key;
        if (other && triton_text_is(name, other, strlen(other)))
            return i;
    }
    return count;
}

enum triton_fact triton_fact_find(struct triton_text key, enum triton_fact first)
{
    return find_kind(triton_fact_kinds, first, TRITON_FACT_COUNT, key, false);
}

enum triton_fact triton_fact_find_attribute(struct triton_text attribute)
{
    return find_kind(triton_fact_kinds, 0, TRITON_FACT_COUNT, attribute, true);
}

enum triton_token_count triton_token_count_find(struct triton_text key)
{
    return find_kind(triton_token_kinds, 0, TRITON_TOKEN_COUNTS, key, false);
}

enum triton_token_count triton_token_count_find_attribute(struct triton_text attribute)
{
    return find_kind(triton_token_kinds, 0, TRITON_TOKEN_COUNTS, attribute, true);
}

struct triton_facts *triton_facts_copy(const struct triton_facts *facts, size_t *ret_bytes)
{
    size_t bytes = sizeof(*facts);
    for (int i = 0; i < TRITON_FACT_COUNT; i++)
        bytes += facts->texts[i].size;
    struct triton_facts *copy = malloc(bytes);
    if (!copy)
        return NULL;
    *copy = *facts;
    char *to = (char *)(copy + 1);
    for (int i = 0; i < TRITON_FACT_COUNT; i++) {
        struct triton_text *text = &copy->texts[i];
        if (!text->at)
            continue;
        memcpy(to, text->at, text->size);
        text->at = to;
        to += text->size;
    }
    *ret_bytes = bytes;
    return copy;
}

bool triton_facts_cancelled(const struct triton_facts *facts)
{
    return facts && facts->texts[TRITON_FACT_STATUS].at &&
           TRITON_TEXT_IS(facts->texts[TRITON_FACT_STATUS], "cancelled");
}

bool triton_facts_failed(const struct triton_facts *facts, struct triton_text *ret_message)
{
    if (!facts || !facts->texts[TRITON_FACT_STATUS].at)
        return false;
    struct triton_text message = facts->texts[TRITON_FACT_ERROR];
    *ret_message = message.size                    ? message
                   : triton_facts_cancelled(facts) ? facts->texts[TRITON_FACT_STATUS]
                                                   : (struct triton_text){"", 0};
    return true;
}
