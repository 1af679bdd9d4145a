/* Jobs by the paths of cgroups; see job.h.
 *
 *   Slurm       [slurm|SERVICE.slice/slurmstepd.scope]/.../job_ID/step_...     (identity.c)
 *   LSF         lsf/CLUSTER/job.ID.PID.TIME, job.ID[INDEX].PID.TIME
 *   PBS         pbs_jobs.service/jobid/ID, pbspro.slice/pbspro-ID.slice, pbs_jobs.slice/pbs_jobs-ID.slice
 *   libvirt     machine-qemu\x2dN\x2dNAME.scope/libvirt/..., qemu-N-NAME.libvirt-qemu
 */
#include "resolve/proc/job.h"

#include "base/hex.h"
#include "base/starts_with.h"
#include "resolve/proc/identity.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define COMPONENT_BYTES 256

/* Removes the suffix; false: it has none. */
static bool cut_suffix(char *text, const char *suffix)
{
    const size_t size = strlen(text), n = strlen(suffix);
    if (size < n || strcmp(text + size - n, suffix) != 0)
        return false;
    text[size - n] = '\0';
    return true;
}

/* systemd's "\x2d" for bytes that a unit's name may not hold. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; to++) {
        if (at[0] == '\\' && at[1] == 'x' && hex_value(at[2]) >= 0 && hex_value(at[3]) >= 0) {
            *to = (char)(hex_value(at[2]) * 16 + hex_value(at[3]));
            at += 4;
        } else {
            *to = *at++;
        }
    }
    *to = '\0';
}

/* "job.1234.5678.1700000000" of LSF: "1234"; "job.1234[5].678.17000": "1234[5]". */
static bool parse_lsf(char *component, char *ret)
{
    if (!starts_with(component, "job."))
        return false;
    char *id = component + strlen("job.");
    id[strcspn(id, ".")] = '\0';
    if (!isdigit((unsigned char)id[0]) || id[strspn(id, "0123456789[]")] != '\0')
        return false;
    snprintf(ret, JOB_ID_BYTES, "%s", id);
    return true;
}

/* `before`: the component above. */
static bool parse_pbs(char *component, const char *before, char *ret)
{
    static const char *const prefixes[] = {"pbspro-", "pbs_jobs-", "pbs-"};
    if (strcmp(before, "jobid") == 0 && isdigit((unsigned char)component[0])) {
        unescape(component);
        snprintf(ret, JOB_ID_BYTES, "%s", component);
        return true;
    }
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (!starts_with(component, prefixes[i]) || !isdigit((unsigned char)component[strlen(prefixes[i])]) ||
            !cut_suffix(component, ".slice"))
            continue;
        unescape(component);
        snprintf(ret, JOB_ID_BYTES, "%s", component + strlen(prefixes[i]));
        return true;
    }
    return false;
}

/* "qemu-1-instance-0000004b": "instance-0000004b". */
static bool parse_libvirt(char *component, char *ret)
{
    char *name = component;
    if (starts_with(name, "machine-") && cut_suffix(name, ".scope")) {
        unescape(name);
        name += strlen("machine-");
    } else if (!cut_suffix(name, ".libvirt-qemu")) {
        return false;
    }
    if (!starts_with(name, "qemu-"))
        return false;
    name += strlen("qemu-");
    const size_t digits = strspn(name, "0123456789");
    if (digits == 0 || name[digits] != '-' || !name[digits + 1])
        return false;
    snprintf(ret, JOB_ID_BYTES, "%s", name + digits + 1);
    return true;
}

/* Finds jobs that identity_from_cgroup does not know. NULL: no known manager's job. */
static const char *find_job(const char *path, char *ret)
{
    char before[COMPONENT_BYTES] = "", component[COMPONENT_BYTES], copy[COMPONENT_BYTES];
    const char *manager = NULL;
    bool in_lsf = false, in_pbs = false;
    while (*path && !manager) {
        const size_t size = strcspn(path, "/");
        snprintf(component, sizeof(component), "%.*s", (int)size, path);
        snprintf(copy, sizeof(copy), "%s", component);
        path += size + (path[size] == '/');
        if (in_lsf && parse_lsf(copy, ret))
            manager = "lsf";
        else if (in_pbs && parse_pbs(copy, before, ret))
            manager = "pbs";
        else if (parse_libvirt(copy, ret))
            manager = "libvirt";
        in_lsf |= strcmp(component, "lsf") == 0;
        in_pbs |= starts_with(component, "pbs");
        memcpy(before, component, sizeof(before));
    }
    return manager;
}

/* The digits of a component between both, the first one in the path. */
static bool find_uid(const char *path, const char *before, const char *after, char *ret, size_t size)
{
    const char *at = strstr(path, before);
    const size_t digits = at ? strspn(at + strlen(before), "0123456789") : 0;
    if (!digits || digits >= size || !starts_with(at + strlen(before) + digits, after))
        return false;
    snprintf(ret, size, "%.*s", (int)digits, at + strlen(before));
    return true;
}

void job_from_cgroup(const char *path, struct job *ret)
{
    struct identity identity;
    struct job job = {.manager = "none"};
    identity_from_cgroup(path, &identity);
    memcpy(job.container_id, identity.container_id, sizeof(job.container_id));
    const char *manager = identity.slurm_job_id[0] ? "slurm" : find_job(path, job.id);
    if (identity.slurm_job_id[0]) {
        snprintf(job.id, sizeof(job.id), "%s", identity.slurm_job_id);
    } else if (!manager && identity.kubernetes_pod_uid[0]) {
        manager = "kubernetes";
        snprintf(job.id, sizeof(job.id), "%s", identity.kubernetes_pod_uid);
    } else if (!manager && identity.container_id[0]) {
        manager = identity.container_runtime[0] ? identity.container_runtime : "container";
        snprintf(job.id, sizeof(job.id), "%s", identity.container_id);
    } else if (!manager && identity.systemd_unit[0]) {
        manager = "systemd";
        snprintf(job.id, sizeof(job.id), "%s", identity.systemd_unit);
    } else if (!manager) {
        snprintf(job.id, sizeof(job.id), "%s", path[0] ? path : "/");
    }
    job.manager = manager ?: job.manager;
    if (!find_uid(path, "/uid_", "/", job.uid, sizeof(job.uid)))
        (void)find_uid(path, "/user-", ".slice", job.uid, sizeof(job.uid));
    *ret = job;
}
