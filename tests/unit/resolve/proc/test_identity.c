/* Cgroup paths as found in practice, runtime by runtime, and OpenTelemetry's variables. */
#include "resolve/proc/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ID   "3f2b7a9c0d1e4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c"
#define ID2  "aaaabbbbccccddddeeeeffff00001111222233334444555566667777888899990"
#define ID3  "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999"
#define UID  "0b4cf1a2-93d7-4c1e-8a55-6f2e1d3c4b5a"
#define UID_ "0b4cf1a2_93d7_4c1e_8a55_6f2e1d3c4b5a"

static const struct {
    const char *path, *container, *runtime, *pod, *job, *unit;
} paths[] = {
    /* no container */
    {"/", "", "", "", "", ""},
    {"", "", "", "", "", ""},
    {"/init.scope", "", "", "", "", "init.scope"},
    {"/system.slice/nginx.service", "", "", "", "", "nginx.service"},
    {"/system.slice/system-getty.slice/getty@tty1.service", "", "", "", "", "getty@tty1.service"},
    {"/system.slice/my\\x2dapp.service", "", "", "", "", "my-app.service"},
    {"/system.slice/_cpu.service", "", "", "", "", "cpu.service"},
    {"/system.slice/cups.socket", "", "", "", "", "cups.socket"},
    {"/user.slice/user-1000.slice/session-3.scope", "", "", "", "", "session-3.scope"},
    {"/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox.service", "", "", "", "",
     "app-firefox.service"},
    {"/machine.slice/systemd-nspawn@web.service", "", "", "", "", "systemd-nspawn@web.service"},
    {"/lxc.payload.web/system.slice/ssh.service", "", "", "", "", "ssh.service"},
    /* Docker: cgroupfs driver, systemd driver, and a container in a container */
    {"/docker/" ID, ID, "docker", "", "", ""},
    {"/system.slice/docker-" ID ".scope", ID, "docker", "", "", ""},
    {"/system.slice/docker-" ID ".scope/system.slice/nginx.service", ID, "docker", "", "", "nginx.service"},
    {"/docker/" ID "/docker/" ID3, ID3, "docker", "", "", ""},
    {"/../../docker/" ID, ID, "docker", "", "", ""},
    {"/docker/" ID2, "", "", "", "", ""}, /* 65 digits: not an ID */
    {"/docker/buildkit/nfqwx9rz0rkhk", "", "", "", "", ""},
    {"/system.slice/docker.service", "", "", "", "", "docker.service"},
    /* containerd */
    {"/default/" ID, ID, "containerd", "", "", ""},
    {"/system.slice/nerdctl-" ID ".scope", ID, "containerd", "", "", ""},
    /* Kubernetes: cgroupfs and systemd drivers, all classes of service */
    {"/kubepods/besteffort/pod" UID "/" ID, ID, "", UID, "", ""},
    {"/kubepods/pod" UID "/" ID, ID, "", UID, "", ""},
    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/cri-containerd-" ID ".scope", ID,
     "containerd", UID, "", ""},
    {"/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope", ID, "containerd", UID, "", ""},
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/docker-" ID ".scope", ID, "docker",
     UID, "", ""},
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/crio-" ID ".scope", ID, "cri-o",
     UID, "", ""},
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/crio-" ID ".scope/container", ID,
     "cri-o", UID, "", ""},
    {"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope", "", "", UID, "",
     "crio-conmon-" ID ".scope"},
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice", "", "", UID, "", ""},
    {"/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID, ID, "containerd", UID,
     "", ""},
    {"/kubepods/burstable/pod7c1f0e9d8b6a5f4e3d2c1b0a99887766/" ID, ID, "", "7c1f0e9d8b6a5f4e3d2c1b0a99887766", "", ""},
    {"/kubepods.slice/kubepods-podnot_a_uid.slice/x", "", "", "", "", ""},
    /* kind: kubelet in a Docker container; Docker in a pod */
    {"/docker/" ID3 "/kubelet/kubepods/besteffort/pod" UID "/" ID, ID, "", UID, "", ""},
    {"/system.slice/docker-" ID3 ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
     "kubelet-kubepods-besteffort-pod" UID_ ".slice/cri-containerd-" ID ".scope",
     ID, "containerd", UID, "", ""},
    {"/kubepods/besteffort/pod" UID "/" ID3 "/docker/" ID, ID, "docker", UID, "", ""},
    {"/../../kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope", ID, "containerd", UID, "", ""},
    /* Podman: rootful, rootless, cgroups=split, a pod, its monitor */
    {"/machine.slice/libpod-" ID ".scope", ID, "podman", "", "", ""},
    {"/machine.slice/libpod-" ID ".scope/container", ID, "podman", "", "", ""},
    {"/libpod_parent/libpod-" ID, ID, "podman", "", "", ""},
    {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container", ID, "podman", "", "",
     ""},
    {"/system.slice/web.service/libpod-payload-" ID, ID, "podman", "", "", ""},
    {"/machine.slice/machine-libpod_pod_" ID3 ".slice/libpod-" ID ".scope", ID, "podman", "", "", ""},
    {"/machine.slice/libpod-conmon-" ID ".scope", "", "", "", "", "libpod-conmon-" ID ".scope"},
    /* ECS */
    {"/ecs/0123456789abcdef0123456789abcdef/" ID, ID, "", "", "", ""},
    /* Slurm: v1, v1 with several nodes on a host, v2 */
    {"/slurm/uid_1000/job_4711/step_0/task_0", "", "", "", "4711", ""},
    {"/slurm_node07/uid_1000/job_4711/step_batch/task_0", "", "", "", "4711", ""},
    {"/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_0", "", "", "", "4711", "slurmstepd.scope"},
    {"/system.slice/node07_slurmstepd.scope/job_12/step_extern/user/task_special", "", "", "", "12",
     "node07_slurmstepd.scope"},
    {"/slurm/uid_0/job_x/step_0", "", "", "", "", ""},
    {"/batch/uid_1000/job_4711", "", "", "", "", ""}, /* jobs of another system */
    {"/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/libpod-" ID ".scope", ID, "podman", "", "7", ""},
};

static void test_identity_of_cgroup_paths(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct identity id;
        identity_from_cgroup(paths[i].path, &id);
        print_message("%s\n", paths[i].path);
        assert_string_equal(id.container_id, paths[i].container);
        assert_string_equal(id.container_runtime, paths[i].runtime);
        assert_string_equal(id.kubernetes_pod_uid, paths[i].pod);
        assert_string_equal(id.slurm_job_id, paths[i].job);
        assert_string_equal(id.systemd_unit, paths[i].unit);
    }
}

static void test_long_unit_is_omitted(void **state)
{
    (void)state;
    char path[400] = "/system.slice/";
    memset(path + strlen(path), 'u', 200);
    memcpy(path + strlen(path), ".service", 9);
    struct identity id;
    identity_from_cgroup(path, &id);
    assert_string_equal(id.systemd_unit, "");
}

static void test_service_of_unit(void **state)
{
    (void)state;
    char name[64] = "";
    assert_true(identity_service_of_unit("nginx.service", name, sizeof(name)));
    assert_string_equal(name, "nginx");
    assert_true(identity_service_of_unit("postgresql@15-main.service", name, sizeof(name)));
    assert_string_equal(name, "postgresql@15-main");
    assert_false(identity_service_of_unit("session-3.scope", name, sizeof(name)));
    assert_false(identity_service_of_unit("user@1000.service", name, sizeof(name)));
    assert_false(identity_service_of_unit(".service", name, sizeof(name)));
    assert_false(identity_service_of_unit("", name, sizeof(name)));
}

static const struct {
    const char *environment;
    size_t size;
    const char *name, *namespace, *version;
} environments[] = {
#define ENVIRONMENT(text) text, sizeof(text)
    {ENVIRONMENT(""), "", "", ""},
    {ENVIRONMENT("HOME=/root\0PATH=/bin"), "", "", ""},
    {ENVIRONMENT("HOME=/root\0OTEL_SERVICE_NAME=shop"), "shop", "", ""},
    {ENVIRONMENT("OTEL_SERVICE_NAME=shop\0OTEL_SERVICE_NAME=other"), "shop", "", ""},
    {ENVIRONMENT("OTEL_SERVICE_NAME="), "", "", ""},
    {ENVIRONMENT("OTEL_SERVICE_NAMES=no\0XOTEL_SERVICE_NAME=no"), "", "", ""},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES=service.name=cart,service.namespace=shop,service.version=1.2"), "cart",
     "shop", "1.2"},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES= service.name = cart , a=b"), "cart", "", ""},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES=service.name=a%2Cb%20c%3Dd"), "a,b c=d", "", ""},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES=service.name=caf%C3%A9,"), "caf\xC3\xA9", "", ""},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES=service.name=cart\0OTEL_SERVICE_NAME=shop"), "shop", "", ""},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES=service.version=2\0OTEL_SERVICE_NAME=shop"), "shop", "", "2"},
    /* an error invalidates the whole variable, but not the other one */
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES=service.name=cart,broken"), "", "", ""},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES=service.name=%zz\0OTEL_SERVICE_NAME=shop"), "shop", "", ""},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES=service.name=%4"), "", "", ""},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES=service.name=a%00b"), "", "", ""},
    {ENVIRONMENT("OTEL_RESOURCE_ATTRIBUTES"), "", "", ""},
    {"OTEL_SERVICE_NAME=cut", sizeof("OTEL_SERVICE_NAME=cut") - 1, "cut", "", ""},
};

static void test_opentelemetry_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(environments) / sizeof(environments[0]); i++) {
        struct identity_service s;
        identity_from_environ(environments[i].environment, environments[i].size, &s);
        print_message("%s\n", environments[i].environment);
        assert_string_equal(s.name, environments[i].name);
        assert_string_equal(s.namespace, environments[i].namespace);
        assert_string_equal(s.version, environments[i].version);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity_of_cgroup_paths),
        cmocka_unit_test(test_long_unit_is_omitted),
        cmocka_unit_test(test_service_of_unit),
        cmocka_unit_test(test_opentelemetry_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
