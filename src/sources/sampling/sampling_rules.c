/* Parses sampling rules and derives rates from them; see sampling_rules.h. */
#include "sources/sampling/sampling_rules.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BLANKS " \t"

static const char *const selectors[SAMPLING_RULE_SELECTOR_COUNT] = {
    [SAMPLING_RULE_PID] = "pid",         [SAMPLING_RULE_CGROUP] = "cgroup", [SAMPLING_RULE_CONTAINER] = "container",
    [SAMPLING_RULE_POD] = "pod",         [SAMPLING_RULE_POD_NAME] = "pod",  [SAMPLING_RULE_POD_LABEL] = "pod-label",
    [SAMPLING_RULE_COMMAND] = "command", [SAMPLING_RULE_USER] = "user",
};

static int parse_selector(const char *word, enum sampling_rule_selector *ret)
{
    for (size_t i = 0; i < array_size(selectors); i++)
        if (strcmp(selectors[i], word) == 0) {
            *ret = (enum sampling_rule_selector)i;
            return 0;
        }
    return -EINVAL;
}

/* Parses "SELECTOR=VALUE:HZ" without surrounding blanks. The value may contain colons: the rate follows the last one.
 */
static int parse_entry(const char *text, size_t bytes, struct sampling_rule *ret)
{
    char entry[SAMPLING_RULE_NAME_BYTES + 8];
    int64_t number, hz;
    if (bytes >= sizeof(entry))
        return -EINVAL;
    memcpy(entry, text, bytes);
    entry[bytes] = '\0';
    char *equals = strchr(entry, '='), *colon = strrchr(entry, ':');
    if (!equals || !colon || colon < equals + 2 || colon - equals > SAMPLING_RULE_VALUE_BYTES)
        return -EINVAL;
    *equals = *colon = '\0';
    *ret = (struct sampling_rule){0};
    memcpy(ret->value, equals + 1, (size_t)(colon - equals));
    if (parse_selector(entry, &ret->selector) < 0 || units_parse_integer(colon + 1, 0, SAMPLING_RULE_HZ_MAX, &hz) < 0)
        return -EINVAL;
    if (ret->selector == SAMPLING_RULE_POD && strchr(ret->value, '/'))
        ret->selector = SAMPLING_RULE_POD_NAME;
    if (ret->selector == SAMPLING_RULE_PID && units_parse_integer(ret->value, 1, 1 << 22, &number) < 0)
        return -EINVAL;
    ret->hz = (uint32_t)hz;
    return 0;
}

static bool is_duplicate(const struct sampling_rules *rules, const struct sampling_rule *t)
{
    for (size_t i = 0; i < rules->count; i++)
        if (rules->list[i].selector == t->selector && strcmp(rules->list[i].value, t->value) == 0)
            return true;
    return false;
}

int sampling_rules_parse(const char *text, struct sampling_rules *ret, const char **ret_bad, size_t *ret_bad_bytes)
{
    *ret = (struct sampling_rules){0};
    if (!text[strspn(text, BLANKS)])
        return 0;
    for (const char *end; text; text = *end ? end + 1 : NULL) {
        struct sampling_rule t;
        end = text + strcspn(text, ",");
        text += strspn(text, BLANKS);
        size_t bytes = text < end ? (size_t)(end - text) : 0;
        while (bytes && strchr(BLANKS, text[bytes - 1]))
            bytes--;
        if (ret->count == SAMPLING_RULES_MAX || parse_entry(text, bytes, &t) < 0 || is_duplicate(ret, &t)) {
            *ret_bad = text < end ? text : end;
            *ret_bad_bytes = bytes;
            return -EINVAL;
        }
        ret->list[ret->count++] = t;
    }
    return 0;
}

const char *sampling_rule_name(const struct sampling_rule *t, char out[SAMPLING_RULE_NAME_BYTES])
{
    snprintf(out, SAMPLING_RULE_NAME_BYTES, "%s=%s", selectors[t->selector], t->value);
    return out;
}

bool sampling_rules_leave_out(const struct sampling_rules *rules, uint32_t others_hz)
{
    if (rules && others_hz == 0)
        return true;
    for (size_t i = 0; rules && i < rules->count; i++)
        if (rules->list[i].hz == 0)
            return true;
    return false;
}

uint32_t sampling_rules_clock_hz(const struct sampling_rules *rules, uint32_t others_hz)
{
    uint32_t hz = others_hz;
    for (size_t i = 0; rules && i < rules->count; i++)
        if (rules->list[i].hz > hz)
            hz = rules->list[i].hz;
    return hz;
}

uint32_t sampling_rules_kinds(const struct sampling_rules *rules)
{
    static const enum sampling_rule_key_kind kinds[SAMPLING_RULE_SELECTOR_COUNT] = {
        [SAMPLING_RULE_PID] = SAMPLING_RULE_KEY_PID,          [SAMPLING_RULE_CGROUP] = SAMPLING_RULE_KEY_CGROUP,
        [SAMPLING_RULE_CONTAINER] = SAMPLING_RULE_KEY_CGROUP, [SAMPLING_RULE_POD] = SAMPLING_RULE_KEY_CGROUP,
        [SAMPLING_RULE_POD_NAME] = SAMPLING_RULE_KEY_CGROUP,  [SAMPLING_RULE_POD_LABEL] = SAMPLING_RULE_KEY_CGROUP,
        [SAMPLING_RULE_COMMAND] = SAMPLING_RULE_KEY_COMMAND,  [SAMPLING_RULE_USER] = SAMPLING_RULE_KEY_USER,
    };
    uint32_t bits = 0;
    for (size_t i = 0; i < rules->count; i++)
        bits |= 1u << kinds[rules->list[i].selector];
    return bits;
}

bool sampling_rules_can_replace(const struct sampling_rules *loaded, const struct sampling_rules *next,
                                uint32_t others_hz)
{
    return !(sampling_rules_kinds(next) & ~sampling_rules_kinds(loaded)) &&
           sampling_rules_clock_hz(next, others_hz) <= sampling_rules_clock_hz(loaded, others_hz) &&
           (sampling_rules_leave_out(loaded, others_hz) || !sampling_rules_leave_out(next, others_hz));
}

void sampling_rules_shares(const struct sampling_rules *rules, uint32_t others_hz, uint32_t clock_hz,
                           uint64_t ret_shares[SAMPLING_RULES_MAX + 1])
{
    memset(ret_shares, 0, (SAMPLING_RULES_MAX + 1) * sizeof(ret_shares[0]));
    if (!clock_hz) /* so are all rates */
        return;
    for (size_t i = 0; i < rules->count; i++)
        ret_shares[i] = rules->list[i].hz * SAMPLING_RULE_ALWAYS / clock_hz;
    ret_shares[SAMPLING_RULES_MAX] = others_hz * SAMPLING_RULE_ALWAYS / clock_hz;
}

void sampling_rules_sample_ns(const struct sampling_rules *rules, uint32_t others_hz, uint64_t others_ns,
                              uint64_t max_ns, uint64_t ret_ns[SAMPLING_RULES_MAX + 1])
{
    const uint32_t often_hz = others_hz ? others_hz : sampling_rules_clock_hz(rules, 0);
    if (max_ns < others_ns)
        max_ns = others_ns;
    memset(ret_ns, 0, (SAMPLING_RULES_MAX + 1) * sizeof(ret_ns[0]));
    for (size_t i = 0; i < rules->count; i++) {
        const uint32_t hz = rules->list[i].hz;
        const uint64_t ns = hz ? others_ns * often_hz / hz : 0;
        ret_ns[i] = ns < max_ns ? ns : max_ns;
    }
    ret_ns[SAMPLING_RULES_MAX] = others_ns;
}
