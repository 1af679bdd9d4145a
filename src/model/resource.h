/* The attributes of a process in OpenTelemetry's terms. Plain data; strings are borrowed from the creator, never
 * NULL ("": does not apply). One resource per process, equal for all its threads and samples until something about
 * the process changes. Resources from processes_resource are immutable and valid until the next processes_begin_turn.
 */
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
    const char *cgroup_path;        /* linux.cgroup.path (ours): relative to the hierarchy's mount */
    const char *attributes; /* other attributes of the process's own context (OTEP 4719): lines of "key TAB text" or
                               "key TAB TAB integer" */
    const char *pod; /* attributes of its pod from the node's container runtime (resolve/process/pods.h): such lines,
                        k8s.pod.name and others */
};

/* An unknown process: every string is "". */
extern const struct resource resource_unknown;

/* The fields by name, for label sets and filters, in a stable order. */
struct resource_attribute {
    const char *key;
    const char *value;
};
#define RESOURCE_ATTRIBUTES_MAX 12

/* Fills `ret` with the non-empty string attributes; returns how many. Values borrow from `r`. */
int resource_attributes(const struct resource *r, struct resource_attribute ret[RESOURCE_ATTRIBUTES_MAX]);

/* True for the attributes that the node determines; a process's own value for them is ignored. */
bool resource_is_of_node(const char *key);

#define RESOURCE_KEY_BYTES   128 /* of `attributes`, with their NUL */
#define RESOURCE_VALUE_BYTES 512

struct resource_other {
    char key[RESOURCE_KEY_BYTES];
    char text[RESOURCE_VALUE_BYTES]; /* for an integer too: its digits */
    bool is_integer;
    int64_t integer;
};

/* The next attribute of such lines, from `*at` on, which is advanced; `*at` NULL: there are none. False at the end;
 * `ret` is then unchanged. */
bool resource_next_other(const char **at, struct resource_other *ret);

struct resource_position { /* initially zeros */
    const char *pod, *attributes;
};

/* Iterates over the attributes of `pod`, then over the members of `attributes` that `pod` lacks. False at the end. */
bool resource_next_of_both(const struct resource *r, struct resource_position *at, struct resource_other *ret);
