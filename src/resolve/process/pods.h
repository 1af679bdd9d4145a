/* The pods of this node and their containers, as reported by its container runtime: parsed once from two CRI replies
 * (runtime.v1.RuntimeService of kubernetes' cri-api), ListPodSandbox and ListContainers, and immutable afterwards.
 * Only configured labels are kept. Pure: the client of the runtime (pipeline/cri.h) passes the bytes, which are not
 * trusted.
 *
 * Reference-counted; any thread may read. Bounded: entries past a limit are left out and counted. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

#define PODS_MAX            4096
#define PODS_CONTAINERS_MAX 16384
#define PODS_MAX_BYTES      ((size_t)4 << 20)
#define PODS_LABELS_MAX     16  /* configured label keys */
#define PODS_KEY_BYTES      112 /* length of a label key, with its NUL */

struct pod {
    const char *uid, *namespace, *name;
    const char *attributes; /* k8s.namespace.name, k8s.pod.name and k8s.pod.label.KEY of the configured labels, one per
                               line as in struct resource */
    bool is_ready;          /* the pod has not ended */
};

struct pods;

struct pods_replies { /* the message of each CRI reply */
    const void *sandboxes, *containers;
    size_t sandboxes_size, containers_size;
};

/* `label_keys`: comma-separated, valid by pods_check_keys. On success the caller owns a reference. -EBADMSG:
 * malformed messages; -EINVAL: invalid keys; -ENOMEM. */
int pods_read(const struct pods_replies *answers, const char *label_keys, struct pods **ret);
/* Returns `pods`; both accept NULL. Every reference is released once, on any thread; the last one frees the pods. */
struct pods *pods_ref(struct pods *pods);
void pods_unref(struct pods *pods);

size_t pods_count(const struct pods *pods);
unsigned pods_left_out(
    const struct pods *pods); /* pods and containers past a limit, or with names that Kubernetes does not allow */
/* Iterates from NULL on, in no particular order; NULL at the end. Borrowed. */
const struct pod *pods_next(const struct pods *pods, const struct pod *before);

/* The attributes of a container, including k8s.container.name; of an unknown container the attributes of its pod, by
 * pod UID. NULL: neither is known. `ret_is_whole`: the container itself is known. Borrowed. */
const char *pods_find(const struct pods *pods, const char *container_id, const char *pod_uid, bool *ret_is_whole);

/* True for a comma-separated list of label keys ("" for none): each valid in Kubernetes and shorter than
 * PODS_KEY_BYTES, at most PODS_LABELS_MAX of them. */
bool pods_check_keys(const char *keys);

/* How pods are selected: by "NAMESPACE/NAME", or by labels "KEY=VALUE,..."; all must match (keys as above). */
enum pod_choice_kind { POD_CHOICE_NAME, POD_CHOICE_LABELS };
bool pod_choice_check(enum pod_choice_kind kind, const char *text);
/* `pod` must have been read with the labels of the selection among its label_keys. */
bool pod_is_chosen(const struct pod *pod, enum pod_choice_kind kind, const char *text);
/* Appends the keys of "a=x,b=y" to the comma-separated list `keys`, each once. False: no space, or invalid labels. */
bool pod_choice_add_keys(const char *labels, char *keys, size_t size);
