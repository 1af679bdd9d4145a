/* Who did it: the attributes of a process in OpenTelemetry's terms. Plain data; strings are borrowed from the maker, never NULL
 * ("" = does not apply). One resource a process; equal for all its threads and samples until it executes another program. */
#pragma once

#include <stdint.h>

struct resource {
    uint32_t pid;                 /* process.pid, initial namespace */
    uint32_t parent_pid;          /* process.parent_pid */
    const char *command;          /* process.command: the process's comm (its main thread's) */
    const char *executable_path;  /* process.executable.path */
    const char *service_name;     /* service.name: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, else unit or command */
    const char *service_namespace;/* service.namespace */
    const char *service_version;  /* service.version */
    const char *container_id;     /* container.id: 64 hexadecimal digits */
    const char *container_runtime;/* container.runtime: "docker", "containerd", "cri-o", "podman" */
    const char *kubernetes_pod_uid; /* k8s.pod.uid */
    const char *slurm_job_id;     /* slurm.job.id (ours; no convention exists) */
    const char *systemd_unit;     /* systemd.unit: "nginx.service" */
    const char *cgroup_path;      /* linux.cgroup.path (ours): as under the hierarchy's mount */
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
