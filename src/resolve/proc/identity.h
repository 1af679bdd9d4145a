/* The owner of a process (container, pod, job, unit, service), from the path of its cgroup and two variables of its
 * environment. Pure functions of bytes without state. Nothing else of an environment is kept, because it holds
 * secrets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct identity {
    char container_id[65]; /* hexadecimal; "" outside of containers */
    const char
        *container_runtime; /* "docker", "containerd", "cri-o", "podman"; "" when the path does not say. Static. */
    char kubernetes_pod_uid[40];
    char slurm_job_id[24];
    char systemd_unit[128]; /* innermost one of the container, or of the host outside of containers */
};

/* Parses a cgroup path of any hierarchy, v1 or v2, with any prefix (the host's, "..", an outer container): the
 * innermost component wins. */
void identity_from_cgroup(const char *path, struct identity *ret);

/* How informative an identity is, for choosing among the hierarchies of v1; 0: it names nothing. */
unsigned identity_weight(const struct identity *i);

/* The unit as a service name, cut to `size`: "nginx" for nginx.service. False for units that are not services of their
 * own (sessions, scopes); `ret` is then unchanged. */
bool identity_service_of_unit(const char *unit, char *ret, size_t size);

#define IDENTITY_SERVICE_BYTES 256
struct identity_service {
    char name[IDENTITY_SERVICE_BYTES], namespace[IDENTITY_SERVICE_BYTES], version[IDENTITY_SERVICE_BYTES];
};

/* Parses /proc/PID/environ for OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, as OpenTelemetry's SDKs do. Sets all
 * fields; "" if missing or too long. */
void identity_from_environ(const char *environment, size_t size, struct identity_service *ret);
