/* Who did it: the attributes of a process in OpenTelemetry's terms. Plain data; strings are borrowed from the maker,
 * never NULL
 * ("" = does not apply). One resource a process; equal for all its threads and samples until it executes another
 * program. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct resource {
    uint32_t pid;                   /* process.pid, initial namespace */
    uint32_t parent_pid;            /* process.parent_pid */
    const char *command;            /* process.command: the process's comm (its main thread's) */
    const char *executable_path;    /* process.executable.path */
    const char *service_name;       /* service.name: the process's own context (OTEP 4719), OTEL_SERVICE_NAME,
                                       OTEL_RESOURCE_ATTRIBUTES, else unit or command */
    const char *service_namespace;  /* service.namespace */
    const char *service_version;    /* service.version */
    const char *container_id;       /* container.id: 64 hexadecimal digits */
    const char *container_runtime;  /* container.runtime: "docker", "containerd", "cri-o", "podman" */
    const char *kubernetes_pod_uid; /* k8s.pod.uid */
    const char *slurm_job_id;       /* slurm.job.id (ours; no convention exists) */
    const char *systemd_unit;       /* systemd.unit: "nginx.service" */
    const char *cgroup_path;        /* linux.cgroup.path (ours): as under the hierarchy's mount */
    const char *attributes; /* all else that the process says of itself (OTEP 4719): lines of "key TAB text", of "key
                               TAB TAB integer" */
    const char *pod;        /* what the node's container runtime says of its pod (resolve/process/pods.h): such lines,
                               k8s.pod.name and others */
};

/* Of which nothing is known: every text is "". */
extern const struct resource resource_unknown;

/* The fields by name, for label sets and filters; NULL-terminated order is stable. */
struct resource_attribute {
    const char *key;
    const char *value;
};
#define RESOURCE_ATTRIBUTES_MAX 12

/* Fills `ret` with the non-empty string attributes; returns how many. Values borrow from `r`. */
int resource_attributes(const struct resource *r, struct resource_attribute ret[RESOURCE_ATTRIBUTES_MAX]);

/* Whether it is one of those that the node tells of a process, and a process need not. */
bool resource_is_of_node(const char *key);

#define RESOURCE_KEY_BYTES   128 /* of `attributes`, with their NUL */
#define RESOURCE_VALUE_BYTES 512

struct resource_other {
    char key[RESOURCE_KEY_BYTES];
    char text[RESOURCE_VALUE_BYTES]; /* of an integer too: its digits */
    bool is_integer;
    int64_t integer;
};

/* One after the other of such lines; `at` is where in them. False at the end. */
bool resource_next_other(const char **at, struct resource_other *ret);

struct resource_position { /* zeros to begin with */
    const char *pod, *attributes;
};

/* One after the other of both, `pod` first; what it says the process does not. False at the end. */
bool resource_next_of_both(const struct resource *r, struct resource_position *at, struct resource_other *ret);
