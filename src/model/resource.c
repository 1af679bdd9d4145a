/* A process's attributes by their OpenTelemetry names; see resource.h. */
#include "model/resource.h"

const struct resource resource_unknown = {
    .command = "",
    .executable_path = "",
    .service_name = "",
    .service_namespace = "",
    .service_version = "",
    .container_id = "",
    .container_runtime = "",
    .kubernetes_pod_uid = "",
    .slurm_job_id = "",
    .systemd_unit = "",
    .cgroup_path = "",
};

int resource_attributes(const struct resource *r, struct resource_attribute ret[RESOURCE_ATTRIBUTES_MAX])
{
    const struct resource_attribute all[RESOURCE_ATTRIBUTES_MAX] = {
        {"service.name", r->service_name},
        {"service.namespace", r->service_namespace},
        {"service.version", r->service_version},
        {"process.command", r->command},
        {"process.executable.path", r->executable_path},
        {"container.id", r->container_id},
        {"container.runtime", r->container_runtime},
        {"k8s.pod.uid", r->kubernetes_pod_uid},
        {"slurm.job.id", r->slurm_job_id},
        {"systemd.unit", r->systemd_unit},
        {"linux.cgroup.path", r->cgroup_path},
    };
    int n = 0;
    for (int i = 0; i < RESOURCE_ATTRIBUTES_MAX; i++)
        if (all[i].value && all[i].value[0])
            ret[n++] = all[i];
    return n;
}
