/* See sampling_pods.h. */
#include "pipeline/sampling_pods.h"

#include "base/log.h"
#include "pipeline/pipeline.h"
#include "resolve/process/pods.h"
#include "sources/sampling/sampling_rule_table.h"

#include <stdio.h>
#include <string.h>

#define ASK_TICKS 5

static bool needs_runtime(const struct sampling_rule *rule)
{
    return rule->selector == SAMPLING_RULE_POD_NAME || rule->selector == SAMPLING_RULE_POD_LABEL;
}

static bool rule_matches_pod(const struct sampling_rule *rule, const struct pod *pod)
{
    return needs_runtime(rule) && pod->is_ready && strlen(pod->uid) < SAMPLING_RULE_POD_UID_BYTES &&
           pod_is_chosen(pod, rule->selector == SAMPLING_RULE_POD_NAME ? POD_CHOICE_NAME : POD_CHOICE_LABELS,
                         rule->value);
}

/* Collects matching pods by rule, up to SAMPLING_PODS_MAX. */
static size_t match_pods(struct sampling_pods *t, const struct sampling_rules *rules, const struct pods *pods,
                         struct sampling_pod ret[SAMPLING_PODS_MAX])
{
    size_t count = 0, left_out = 0;
    for (uint32_t i = 0; i < rules->count; i++)
        for (const struct pod *pod = NULL; (pod = pods_next(pods, pod));) {
            if (!rule_matches_pod(&rules->list[i], pod))
                continue;
            if (count == SAMPLING_PODS_MAX) {
                left_out++;
                continue;
            }
            ret[count] = (struct sampling_pod){.rule = i};
            snprintf(ret[count++].uid, sizeof(ret->uid), "%s", pod->uid);
        }
    if (left_out && !t->warned_full)
        log_warning(
            "profile.sampling_rules: %zu pods are ignored: at most %d pods can match by name or label at a time",
            left_out, SAMPLING_PODS_MAX);
    t->warned_full |= left_out != 0;
    return count;
}

static bool any_needs_runtime(const struct sampling_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        if (needs_runtime(&rules->list[i]))
            return true;
    return false;
}

void sampling_pods_follow(struct sampling_pods *t, const struct sampling_rules *rules, struct pipeline *p)
{
    struct sampling_pod chosen[SAMPLING_PODS_MAX];
    if (!any_needs_runtime(rules))
        return;
    if (t->ticks++ % ASK_TICKS == 0)
        pipeline_ask_for_pods(p);
    struct pods *pods = pipeline_pods(p);
    if (!pods || pods == t->seen)
        return;
    sampling_pods_clear(t);
    t->seen = pods_ref(pods);
    pipeline_set_sampling_pods(p, chosen, match_pods(t, rules, pods, chosen));
}

void sampling_pods_clear(struct sampling_pods *t)
{
    pods_unref(t->seen);
    t->seen = NULL;
}
