/* Queries the pods of this node from the container runtime by CRI: gRPC over a UNIX socket, like the kubelet and
 * crictl(1). Two read-only calls, ListPodSandbox and ListContainers. Blocks until the reply: not for the pipeline
 * thread (pod_watch.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pods;

#define CRI_WHY_BYTES 512

struct cri_options {
    const char *socket;             /* path; "": the default paths, one after the other */
    const char *label_keys;         /* see pods_read */
    bool (*is_over)(void *context); /* polled at least once a second while waiting: true cancels. May be NULL. */
    void *context;
};

/* Takes at most ten seconds. 0 with the pods, a reference that the caller owns; -ENOENT: no such socket; other errors
 * as -errno. The reason is in `why`, for people (also for -ENOENT). */
int cri_ask(const struct cri_options *options, struct pods **ret, char why[CRI_WHY_BYTES]);
