/* A process's attributes by their OpenTelemetry names; see resource.h. */
#include "model/resource.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

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
    .attributes = "",
    .pod = "",
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

bool resource_is_of_node(const char *key)
{
    static const char *const keys[] = {
        "process.pid",  "process.parent_pid", "process.command", "process.executable.path",
        "container.id", "container.runtime",  "k8s.pod.uid",     "slurm.job.id",
        "systemd.unit", "linux.cgroup.path",  "host.name",
    };
    for (size_t i = 0; i < array_size(keys); i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* Copies the text up to `end`; cut where it is too long, which stored lines never are. */
static void copy_cut(char *to, size_t size, const char *from, const char *end)
{
    const size_t n = (size_t)(end - from) < size ? (size_t)(end - from) : size - 1;
    memcpy(to, from, n);
    to[n] = '\0';
}

bool resource_next_other(const char **at, struct resource_other *ret)
{
    const char *line = *at ? *at : "", *tab = strchr(line, '\t'), *end = tab ? strchr(tab, '\n') : NULL;
    if (!end)
        return false;
    const char *value = tab + 1 + (tab[1] == '\t');
    copy_cut(ret->key, sizeof(ret->key), line, tab);
    copy_cut(ret->text, sizeof(ret->text), value, end);
    ret->is_integer = tab[1] == '\t';
    ret->integer = ret->is_integer ? strtoll(ret->text, NULL, 10) : 0;
    *at = end + 1;
    return true;
}

static bool has_key(const char *lines, const char *key)
{
    struct resource_other other;
    while (resource_next_other(&lines, &other))
        if (strcmp(other.key, key) == 0)
            return true;
    return false;
}

bool resource_next_of_both(const struct resource *r, struct resource_position *at, struct resource_other *ret)
{
    if (!at->pod)
        *at = (struct resource_position){r->pod ? r->pod : "", r->attributes};
    if (resource_next_other(&at->pod, ret))
        return true;
    while (resource_next_other(&at->attributes, ret))
        if (!r->pod || !has_key(r->pod, ret->key))
            return true;
    return false;
}
