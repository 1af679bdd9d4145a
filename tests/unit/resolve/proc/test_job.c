/* Jobs of resource managers, container runtimes and systemd, by the paths that they create. */
#include "resolve/proc/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ID   "3f2b7a9c0d1e4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c"
#define UID  "0b4cf1a2-93d7-4c1e-8a55-6f2e1d3c4b5a"
#define UID_ "0b4cf1a2_93d7_4c1e_8a55_6f2e1d3c4b5a"
#define LONG                                                                                                           \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
    const char *path, *manager, *id, *container;
} paths[] = {
    {"/", "none", "/", ""},
    {"", "none", "/", ""},
    {"/some/folder", "none", "/some/folder", ""},
    {"/system.slice/nginx.service", "systemd", "nginx.service", ""},
    {"/user.slice/user-1000.slice/session-3.scope", "systemd", "session-3.scope", ""},
    /* Slurm: cgroup v1, also with the node's name, and v2; steps and tasks are folded in */
    {"/slurm/uid_1000/job_123/step_0/task_1", "slurm", "123", ""},
    {"/slurm_node7/uid_1000/job_123/step_batch", "slurm", "123", ""},
    {"/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "slurm", "4711", ""},
    {"/system.slice/node7_slurmstepd.scope/job_4711/step_extern/user/task_special", "slurm", "4711", ""},
    {"/system.slice/slurmd.service", "systemd", "slurmd.service", ""},
    {"/system.slice/slurmstepd.scope/job_x/step_0", "systemd", "slurmstepd.scope", ""},
    /* a container that a job runs belongs to the job */
    {"/system.slice/slurmstepd.scope/job_9/step_0/user/docker-" ID ".scope", "slurm", "9", ID},
    /* LSF */
    {"/lsf/cluster1/job.1234.5678.1700000000", "lsf", "1234", ""},
    {"/lsf/cluster1/job.1234[17].5678.1700000000/sub", "lsf", "1234[17]", ""},
    {"/lsf/cluster1/job.x.1", "none", "/lsf/cluster1/job.x.1", ""},
    {"/job.1234.5678.1700000000", "none", "/job.1234.5678.1700000000", ""},
    /* PBS */
    {"/pbs_jobs.service/jobid/42.server", "pbs", "42.server", ""},
    {"/pbspro.slice/pbspro-42.server.slice", "pbs", "42.server", ""},
    {"/pbs_jobs.slice/pbs_jobs-42\\x2d1.server.slice/task", "pbs", "42-1.server", ""},
    {"/system.slice/pbs.service", "systemd", "pbs.service", ""},
    /* libvirt */
    {"/machine.slice/machine-qemu\\x2d3\\x2dinstance\\x2d0000004b.scope/libvirt/vcpu0", "libvirt", "instance-0000004b",
     ""},
    {"/machine/qemu-3-vm1.libvirt-qemu/emulator", "libvirt", "vm1", ""},
    {"/machine.slice/machine-qemu\\x2dx.scope", "systemd", "machine-qemu-x.scope", ""},
    /* Kubernetes and containers */
    {"/kubepods/burstable/pod" UID "/" ID, "kubernetes", UID, ID},
    {"/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope", "kubernetes", UID, ID},
    {"/kubepods.slice/kubepods-pod" UID_ ".slice", "kubernetes", UID, ""},
    {"/docker/" ID, "docker", ID, ID},
    {"/machine.slice/libpod-" ID ".scope/container", "podman", ID, ID},
    /* hostile */
    {"/pbs/jobid/1\\x", "pbs", "1\\x", ""},
    {"/machine-qemu\\x2d1\\x2d.scope", "systemd", "machine-qemu-1-.scope", ""},
};

static void test_paths(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct job job;
        job_from_cgroup(paths[i].path, &job);
        if (strcmp(job.manager, paths[i].manager) != 0 || strcmp(job.id, paths[i].id) != 0 ||
            strcmp(job.container_id, paths[i].container) != 0)
            fail_msg("%s: %s %s %s", paths[i].path, job.manager, job.id, job.container_id);
    }
}

static void test_users(void **state)
{
    static const struct {
        const char *path, *uid;
    } users[] = {
        {"/slurm/uid_1000/job_123/step_0", "1000"},
        {"/user.slice/user-1001.slice/session-3.scope", "1001"},
        {"/user.slice/user-1001.slice/user@1001.service/app.slice/x.service", "1001"},
        {"/system.slice/slurmstepd.scope/job_4711/step_0", ""},
        {"/uid_/job_1", ""},
        {"/uid_12x/job_1", ""},
        {"/uid_123456789012/job_1", ""},
        {"/user-7.scope", ""},
        {"/", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
        struct job job;
        job_from_cgroup(users[i].path, &job);
        assert_string_equal(job.uid, users[i].uid);
    }
}

static void test_long_paths_are_cut(void **state)
{
    struct job job;
    (void)state;
    job_from_cgroup("/" LONG LONG LONG, &job);
    assert_string_equal(job.manager, "none");
    assert_int_equal(strlen(job.id), JOB_ID_BYTES - 1);
    job_from_cgroup("/pbs/jobid/1" LONG LONG, &job);
    assert_string_equal(job.manager, "pbs");
    assert_true(strlen(job.id) < JOB_ID_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_users),
        cmocka_unit_test(test_long_paths_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
