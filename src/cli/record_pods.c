/* See record_pods.h. A pod is chosen with its own cgroup, which all its containers lie below, so that only pods come
 * and go. */
#include "cli/record_pods.h"

#include "agent/cri.h"
#include "agent/pipeline.h"
#include "base/log.h"
#include "resolve/process/pods.h"
#include "sources/sampling/cgroup_search.h"

#include <errno.h>
#include <string.h>

#define KEYS_BYTES 2048

struct chosen {
    char uid[40];
    uint64_t cgroup_id;
    bool is_there; /* in the runtime's last answer */
};

struct record_pods {
    const struct record_filters *filters;
    char label_keys[KEYS_BYTES];
    uint64_t other_ids[SOURCE_FILTER_MAX]; /* cgroups that were chosen otherwise */
    size_t other_count;
    struct chosen chosen[SOURCE_FILTER_MAX];
    size_t count;
    bool said_full;
    struct pods *seen; /* the answer that all this is of; a reference */
    bool are_awaited;  /* of those wanted, some have no cgroup yet */
};

/* ---- which they are ---- */

static bool is_wanted(const struct record_filters *f, const struct pod *pod)
{
    for (size_t i = 0; i < f->pods.count; i++)
        if (pod_is_chosen(pod, POD_CHOICE_NAME, f->pods.values[i]))
            return true;
    for (size_t i = 0; i < f->pod_labels.count; i++)
        if (pod_is_chosen(pod, POD_CHOICE_LABELS, f->pod_labels.values[i]))
            return true;
    return false;
}

static struct chosen *find(struct record_pods *p, const char *uid)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->chosen[i].uid, uid) == 0)
            return &p->chosen[i];
    return NULL;
}

/* Whether it is chosen from now on. One without a cgroup is about to begin, or has no process yet. */
static bool choose(struct record_pods *p, const struct pod *pod)
{
    uint64_t id;
    if (p->other_count + p->count == SOURCE_FILTER_MAX) {
        if (!p->said_full)
            log_warning("record: pod %s/%s is left out, and others may be: no more than %d cgroups at a time",
                        pod->namespace, pod->name, SOURCE_FILTER_MAX);
        p->said_full = true;
        return false;
    }
    if (cgroup_search_pod(pod->uid, &id, 1) <= 0) {
        p->are_awaited = true;
        return false;
    }
    struct chosen *c = &p->chosen[p->count++];
    *c = (struct chosen){.cgroup_id = id, .is_there = true};
    snprintf(c->uid, sizeof(c->uid), "%s", pod->uid);
    return true;
}

static bool drop_ended(struct record_pods *p)
{
    const size_t before = p->count;
    size_t kept = 0;
    for (size_t i = 0; i < before; i++)
        if (p->chosen[i].is_there)
            p->chosen[kept++] = p->chosen[i];
    p->count = kept;
    return kept < before;
}

/* Whether it has changed who they are. */
static bool update(struct record_pods *p, struct pods *pods, bool is_first)
{
    const struct pod *pod = NULL;
    if (pods == p->seen && !p->are_awaited)
        return false;
    pods_ref(pods);
    pods_unref(p->seen);
    p->seen = pods;
    p->are_awaited = false;
    for (size_t i = 0; i < p->count; i++)
        p->chosen[i].is_there = false;
    while ((pod = pods_next(pods, pod))) {
        struct chosen *known = find(p, pod->uid);
        if (known)
            known->is_there = pod->is_ready;
    }
    bool changed = drop_ended(p);
    while ((pod = pods_next(pods, pod))) {
        if (!pod->is_ready || !is_wanted(p->filters, pod) || find(p, pod->uid) || !choose(p, pod))
            continue;
        changed = true;
        if (!is_first)
            log_info("record: pod %s/%s has come, and is recorded too", pod->namespace, pod->name);
    }
    return changed;
}

static size_t list_ids(const struct record_pods *p, uint64_t ids[SOURCE_FILTER_MAX])
{
    size_t count = p->other_count;
    memcpy(ids, p->other_ids, count * sizeof(*ids));
    for (size_t i = 0; i < p->count; i++)
        ids[count++] = p->chosen[i].cgroup_id;
    return count;
}

/* ---- the beginning ---- */

static size_t count_names(const struct option_texts *pods)
{
    size_t count = 0;
    for (size_t i = 0; i < pods->count; i++)
        count += strchr(pods->values[i], '/') != NULL;
    return count;
}

static int check(const struct record_filters *f, struct record_pods *p)
{
    for (size_t i = 0; i < f->pods.count; i++)
        if (strchr(f->pods.values[i], '/') && !pod_choice_check(POD_CHOICE_NAME, f->pods.values[i])) {
            log_error("record: --pod: '%s' is not NAMESPACE/NAME", f->pods.values[i]);
            return -EINVAL;
        }
    for (size_t i = 0; i < f->pod_labels.count; i++) {
        if (!pod_choice_check(POD_CHOICE_LABELS, f->pod_labels.values[i])) {
            log_error("record: --pod-label: '%s' is not KEY=VALUE,...", f->pod_labels.values[i]);
            return -EINVAL;
        }
        if (!pod_choice_add_keys(f->pod_labels.values[i], p->label_keys, sizeof(p->label_keys))) {
            log_error("record: --pod-label: no more than %d labels", PODS_LABELS_MAX);
            return -EINVAL;
        }
    }
    return 0;
}

/* What nobody is called by or labelled with, or who has ended. */
static int report_nobody(const struct record_filters *f, const struct pods *pods)
{
    const size_t names = count_names(&f->pods);
    log_error(
        "record: none of the pods that run here by what the container runtime tells (of %zu, with those that have ended) %s%s%s",
        pods_count(pods), names ? "has a name of --pod" : "", names && f->pod_labels.count ? ", or " : "",
        f->pod_labels.count ? "has the labels of --pod-label" : "");
    return -ESRCH;
}

int record_pods_new(const struct record_filters *f, const char *cri_socket, struct source_options *options,
                    struct record_pods **ret)
{
    if (!count_names(&f->pods) && !f->pod_labels.count) {
        *ret = NULL;
        return 0;
    }
    _cleanup_(record_pods_freep) struct record_pods *p = calloc(1, sizeof(*p));
    struct pods *pods;
    char why[CRI_WHY_BYTES] = "";
    if (!p)
        return -ENOMEM;
    p->filters = f;
    int r = check(f, p);
    if (r < 0)
        return r;
    r = cri_ask(&(struct cri_options){.socket = cri_socket, .label_keys = p->label_keys}, &pods, why);
    if (r < 0) {
        log_error("record: pods cannot be chosen: %s", why[0] ? why : strerror(-r));
        return r;
    }
    p->other_count = options->cgroup_count;
    memcpy(p->other_ids, options->cgroup_ids, sizeof(p->other_ids));
    update(p, pods, true);
    r = p->count ? 0 : report_nobody(f, pods);
    pods_unref(pods);
    if (r < 0)
        return r;
    options->cgroup_count = list_ids(p, options->cgroup_ids);
    *ret = take_ptr(p);
    return 0;
}

void record_pods_free(struct record_pods *p)
{
    if (p)
        pods_unref(p->seen);
    free(p);
}

const char *record_pods_labels(const struct record_pods *p)
{
    return p ? p->label_keys : "";
}

void record_pods_follow(struct record_pods *p, struct pipeline *pipeline)
{
    struct pods *pods = pipeline_pods(pipeline);
    uint64_t ids[SOURCE_FILTER_MAX];
    if (!p)
        return;
    pipeline_ask_for_pods(pipeline);
    if (!pods || !update(p, pods, false))
        return;
    int r = pipeline_set_cgroups(pipeline, ids, list_ids(p, ids));
    if (r < 0)
        log_errno(r, "record: pods that have come are not recorded");
}
