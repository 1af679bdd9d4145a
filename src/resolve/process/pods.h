/* The pods of this node and their containers, as its container runtime tells of them: two answers of CRI
 * (runtime.v1.RuntimeService of kubernetes' cri-api), ListPodSandbox and ListContainers, read once and never changed
 * again. Of labels only those are kept that are asked for. Pure: whoever asks the runtime gives the bytes
 * (agent/cri.h), which are not trusted.
 *
 * References are counted; any thread may read. Bounded: what is beyond is left out and counted. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

#define PODS_MAX            4096
#define PODS_CONTAINERS_MAX 16384
#define PODS_MAX_BYTES      ((size_t)4 << 20)
#define PODS_LABELS_MAX     16  /* that may be asked for */
#define PODS_KEY_BYTES      112 /* of the name of one of these, with its NUL */

struct pod {
    const char *uid, *namespace, *name;
    const char *attributes; /* k8s.namespace.name, k8s.pod.name, k8s.pod.label.KEY of the labels asked for: lines as of
                               struct resource */
    bool is_ready;          /* not a pod that has ended */
};

struct pods;

struct pods_answers { /* of one CRI call each: the message */
    const void *sandboxes, *containers;
    size_t sandboxes_size, containers_size;
};

/* `label_keys`: separated by commas, as pods_check_keys has it. -EBADMSG: they are no such messages; -ENOMEM. */
int pods_read(const struct pods_answers *answers, const char *label_keys, struct pods **ret);
struct pods *pods_ref(struct pods *pods);
void pods_unref(struct pods *pods); /* takes NULL */

size_t pods_count(const struct pods *pods);
unsigned pods_left_out(
    const struct pods *pods); /* pods and containers: too many, or with names that Kubernetes does not allow */
/* One after the other, from NULL on, in no order that means anything; NULL at the end. Borrowed. */
const struct pod *pods_next(const struct pods *pods, const struct pod *before);

/* The attributes of a container, k8s.container.name among them; of a container that is not known those of its pod, by
 * that one's UID. NULL: neither is known. `ret_is_whole`: the container itself is. Borrowed. */
const char *pods_find(const struct pods *pods, const char *container_id, const char *pod_uid, bool *ret_is_whole);

/* Names of labels, separated by commas, "" for none: those that Kubernetes allows, PODS_LABELS_MAX at most, each of
 * less than PODS_KEY_BYTES. */
bool pods_check_keys(const char *keys);

/* Which pods somebody means: "NAMESPACE/NAME", or by labels "KEY=VALUE,...", all of which they have (names of labels as
 * above). */
enum pod_choice_kind { POD_CHOICE_NAME, POD_CHOICE_LABELS };
bool pod_choice_check(enum pod_choice_kind kind, const char *text);
/* The pod has been read with the labels of the choice asked for. */
bool pod_is_chosen(const struct pod *pod, enum pod_choice_kind kind, const char *text);
/* "a=x,b=y" -> "a,b" at the end of `keys`, behind a comma if it holds any; false: there is no room. A name is in it
 * once. */
bool pod_choice_add_keys(const char *labels, char *keys, size_t size);
