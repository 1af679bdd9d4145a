/* Selects pods by name and label; see record_pods.h. A pod is selected by its own cgroup, the parent of the cgroups of
 * its containers, so only pods have to be followed, not containers. */
#include "recording/record_pods.h"

#include "base/log.h"
#include "pipeline/cri.h"
#include "pipeline/pipeline.h"
#include "resolve/process/pods.h"
#include "sources/sampling/cgroup_search.h"

#include <errno.h>
#include <string.h>

#define KEYS_BYTES 2048

struct selected {
    char uid[40];
    uint64_t cgroup_id;
    bool is_present; /* in the runtime's latest list */
};

struct record_pods {
    const struct record_filters *filters;
    char label_keys[KEYS_BYTES];
    uint64_t other_ids[TASK_FILTER_MAX]; /* cgroups selected by other filters */
    size_t other_count;
    struct selected selected[TASK_FILTER_MAX];
    size_t count;
    bool full_logged;
    struct pods *seen;    /* the list that was processed last; holds a reference */
    bool cgroups_pending; /* some selected pods have no cgroup yet */
};

/* ---- selection ---- */

static bool is_selected(const struct record_filters *f, const struct pod *pod)
{
    for (size_t i = 0; i < f->pods.count; i++)
        if (pod_is_chosen(pod, POD_CHOICE_NAME, f->pods.values[i]))
            return true;
    for (size_t i = 0; i < f->pod_labels.count; i++)
        if (pod_is_chosen(pod, POD_CHOICE_LABELS, f->pod_labels.values[i]))
            return true;
    return false;
}

static struct selected *find_selected(struct record_pods *p, const char *uid)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->selected[i].uid, uid) == 0)
            return &p->selected[i];
    return NULL;
}

/* Selects the pod. False: the table is full, or the pod has no cgroup yet (it is starting, or has no process yet). */
static bool select_pod(struct record_pods *p, const struct pod *pod)
{
    uint64_t id;
    if (p->other_count + p->count == TASK_FILTER_MAX) {
        if (!p->full_logged)
            log_warning(
                "record: pod %s/%s is not recorded, and further ones may not be: at most %d cgroups can be selected",
                pod->namespace, pod->name, TASK_FILTER_MAX);
        p->full_logged = true;
        return false;
    }
    if (cgroup_search_pod(pod->uid, &id, 1) <= 0) {
        p->cgroups_pending = true;
        return false;
    }
    struct selected *c = &p->selected[p->count++];
    *c = (struct selected){.cgroup_id = id, .is_present = true};
    snprintf(c->uid, sizeof(c->uid), "%s", pod->uid);
    return true;
}

static bool drop_ended(struct record_pods *p)
{
    const size_t before = p->count;
    size_t kept = 0;
    for (size_t i = 0; i < before; i++)
        if (p->selected[i].is_present)
            p->selected[kept++] = p->selected[i];
    p->count = kept;
    return kept < before;
}

/* Updates the selection from the runtime's list. Returns whether it changed. */
static bool update_selection(struct record_pods *p, struct pods *pods, bool is_first)
{
    const struct pod *pod = NULL;
    if (pods == p->seen && !p->cgroups_pending)
        return false;
    pods_ref(pods);
    pods_unref(p->seen);
    p->seen = pods;
    p->cgroups_pending = false;
    for (size_t i = 0; i < p->count; i++)
        p->selected[i].is_present = false;
    while ((pod = pods_next(pods, pod))) {
        struct selected *known = find_selected(p, pod->uid);
        if (known)
            known->is_present = pod->is_ready;
    }
    bool changed = drop_ended(p);
    while ((pod = pods_next(pods, pod))) {
        if (!pod->is_ready || !is_selected(p->filters, pod) || find_selected(p, pod->uid) || !select_pod(p, pod))
            continue;
        changed = true;
        if (!is_first)
            log_info("record: pod %s/%s has started, and is recorded too", pod->namespace, pod->name);
    }
    return changed;
}

static size_t list_ids(const struct record_pods *p, uint64_t ids[TASK_FILTER_MAX])
{
    size_t count = p->other_count;
    memcpy(ids, p->other_ids, count * sizeof(*ids));
    for (size_t i = 0; i < p->count; i++)
        ids[count++] = p->selected[i].cgroup_id;
    return count;
}

/* ---- start ---- */

static size_t count_names(const struct text_list *pods)
{
    size_t count = 0;
    for (size_t i = 0; i < pods->count; i++)
        count += strchr(pods->values[i], '/') != NULL;
    return count;
}

static int check_filters(const struct record_filters *f, struct record_pods *p)
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
            log_error("record: --pod-label: at most %d labels", PODS_LABELS_MAX);
            return -EINVAL;
        }
    }
    return 0;
}

/* No running pod matches. */
static int report_no_match(const struct record_filters *f, const struct pods *pods)
{
    const size_t names = count_names(&f->pods);
    log_error("record: no running pod of this node (the container runtime lists %zu, ended ones included) %s%s%s",
              pods_count(pods), names ? "has a name given with --pod" : "", names && f->pod_labels.count ? ", or " : "",
              f->pod_labels.count ? "has the labels given with --pod-label" : "");
    return -ESRCH;
}

int record_pods_new(const struct record_filters *f, const char *cri_socket, struct task_filter *filter,
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
    int r = check_filters(f, p);
    if (r < 0)
        return r;
    r = cri_ask(&(struct cri_options){.socket = cri_socket, .label_keys = p->label_keys}, &pods, why);
    if (r < 0) {
        log_error("record: cannot select pods: %s", why[0] ? why : strerror(-r));
        return r;
    }
    p->other_count = filter->cgroup_count;
    memcpy(p->other_ids, filter->cgroup_ids, sizeof(p->other_ids));
    update_selection(p, pods, true);
    r = p->count ? 0 : report_no_match(f, pods);
    pods_unref(pods);
    if (r < 0)
        return r;
    filter->cgroup_count = list_ids(p, filter->cgroup_ids);
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
    uint64_t ids[TASK_FILTER_MAX];
    if (!p)
        return;
    pipeline_ask_for_pods(pipeline);
    if (!pods || !update_selection(p, pods, false))
        return;
    int r = pipeline_set_cgroups(pipeline, ids, list_ids(p, ids));
    if (r < 0)
        log_errno(r, "record: cannot record pods that have started");
}
