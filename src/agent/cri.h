/* Asks the container runtime of this node for its pods, by CRI: gRPC over a UNIX socket, as the kubelet and crictl(1)
 * do. Two calls that read, ListPodSandbox and ListContainers; nothing is changed there. Waits for the answers: not for
 * the pipeline's thread (pod_watch.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pods;

#define CRI_WHY_BYTES 512

struct cri_options {
    const char *socket;             /* its path; "": the usual ones, one after the other */
    const char *label_keys;         /* see pods_read */
    bool (*is_over)(void *context); /* asked meanwhile, once a second at least: true gives up. May be NULL. */
    void *context;
};

/* Takes ten seconds at most. 0 with the pods, of which the caller has a reference; -ENOENT: no such socket is here;
 * else what went wrong, for people in `why` (as of -ENOENT). */
int cri_ask(const struct cri_options *options, struct pods **ret, char why[CRI_WHY_BYTES]);
