/* /proc/PID/cgroup and the paths in it: results are terminated and contain only allowed characters. */
#include "resolve/proc/cgroups.h"
#include "resolve/proc/job.h"

#include <stdlib.h>
#include <string.h>

static void check_characters(const char *text, size_t room, const char *allowed)
{
    if (strnlen(text, room) == room || strspn(text, allowed) != strlen(text))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t path_size = 0;
    const char *path = cgroup_choose_path((const char *)data, size, &path_size);
    if (path && (path < (const char *)data || path_size == 0 || path + path_size > (const char *)data + size))
        abort();

    char *copy = strndup((const char *)data, size);
    if (!copy)
        return 0;
    struct identity id;
    identity_from_cgroup(copy, &id);
    check_characters(id.container_id, sizeof(id.container_id), "0123456789abcdef");
    check_characters(id.kubernetes_pod_uid, sizeof(id.kubernetes_pod_uid), "0123456789abcdef-");
    check_characters(id.slurm_job_id, sizeof(id.slurm_job_id), "0123456789");
    if (strnlen(id.systemd_unit, sizeof(id.systemd_unit)) == sizeof(id.systemd_unit))
        abort();
    if (id.container_id[0] && strlen(id.container_id) != 64)
        abort();
    struct job job;
    job_from_cgroup(copy, &job);
    if (!job.manager || !job.id[0] || strnlen(job.id, sizeof(job.id)) == sizeof(job.id))
        abort();
    check_characters(job.container_id, sizeof(job.container_id), "0123456789abcdef");
    char service[32] = "";
    identity_service_of_unit(id.systemd_unit, service, sizeof(service));
    free(copy);
    return 0;
}
