/* See target_pods.h. */
#include "agent/target_pods.h"

#include "agent/pipeline.h"
#include "base/log.h"
#include "resolve/process/pods.h"
#include "sources/sampling/target_table.h"

#include <stdio.h>
#include <string.h>

#define ASK_TICKS 5

static bool is_by_runtime(const struct target *target)
{
    return target->selector == TARGET_POD_NAME || target->selector == TARGET_POD_LABEL;
}

static bool is_meant(const struct target *target, const struct pod *pod)
{
    return is_by_runtime(target) && pod->is_ready && strlen(pod->uid) < TARGET_POD_UID_BYTES &&
           pod_is_chosen(pod, target->selector == TARGET_POD_NAME ? POD_CHOICE_NAME : POD_CHOICE_LABELS, target->value);
}

/* By target, as many as there is room for. */
static size_t choose(struct target_pods *t, const struct targets *targets, const struct pods *pods, struct target_pod ret[TARGET_PODS_MAX])
{
    size_t count = 0, left_out = 0;
    for (uint32_t i = 0; i < targets->count; i++)
        for (const struct pod *pod = NULL; (pod = pods_next(pods, pod));) {
            if (!is_meant(&targets->list[i], pod))
                continue;
            if (count == TARGET_PODS_MAX) {
                left_out++;
                continue;
            }
            ret[count] = (struct target_pod){.target = i};
            snprintf(ret[count++].uid, sizeof(ret->uid), "%s", pod->uid);
        }
    if (left_out && !t->said_full)
        log_warning("profile.targets: %zu pods are left out, and others may be: no more than %d at a time by names and labels", left_out, TARGET_PODS_MAX);
    t->said_full |= left_out != 0;
    return count;
}

static bool are_wanted(const struct targets *targets)
{
    for (size_t i = 0; i < targets->count; i++)
        if (is_by_runtime(&targets->list[i]))
            return true;
    return false;
}

void target_pods_follow(struct target_pods *t, const struct targets *targets, struct pipeline *p)
{
    struct target_pod chosen[TARGET_PODS_MAX];
    if (!are_wanted(targets))
        return;
    if (t->ticks++ % ASK_TICKS == 0)
        pipeline_ask_for_pods(p);
    struct pods *pods = pipeline_pods(p);
    if (!pods || pods == t->seen)
        return;
    target_pods_clear(t);
    t->seen = pods_ref(pods);
    pipeline_set_target_pods(p, chosen, choose(t, targets, pods, chosen));
}

void target_pods_clear(struct target_pods *t)
{
    pods_unref(t->seen);
    t->seen = NULL;
}
