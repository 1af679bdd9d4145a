/* The resource of a process: it never changes, and stays readable until the next turn. AddressSanitizer finds a
 * resource that is freed too early. */
#include "../process_records.h"

#include "base/protobuf.h"
#include "model/metric.h"
#include "resolve/process/pods.h"
#include "resolve/process/processes_table.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>

#define POD_UID   "0b1d3c5e-1111-2222-3333-444455556666"
#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static double metric_value(struct fixture *f, const char *name)
{
    struct metric_set *set;
    double value = -1;
    assert_int_equal(metric_set_new(&set), 0);
    processes_metrics(f->p, set);
    for (size_t i = 0; i < metric_set_families(set); i++)
        if (strcmp(metric_set_family(set, i).name, name) == 0)
            value = metric_set_family(set, i).points[0].value;
    metric_set_free(set);
    return value;
}

static const struct resource *resource_of(struct fixture *f, uint32_t pid)
{
    const struct process *process = processes_find(f->p, pid, 0);
    assert_non_null(process);
    return processes_resource(f->p, process);
}

static void start_program(struct fixture *f, uint32_t pid, const char *comm, const char *path)
{
    record_exec(f, pid, comm);
    record_mmap(f, pid, 0x1000, 0x2000, 0, path);
}

static void test_unchanged_process_keeps_its_resource(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    start_program(f, UNUSED_PID, "server", "/bin/server");
    const struct resource *r = resource_of(f, UNUSED_PID);
    record_mmap(f, UNUSED_PID, 0x5000, 0x6000, 0, "/lib/plugin.so");
    record_comm(f, UNUSED_PID, UNUSED_PID, "server");
    processes_begin_turn(f->p);
    assert_ptr_equal(resource_of(f, UNUSED_PID), r);
}

static void test_resource_outlives_its_program_and_process(void **state)
{
    struct fixture *f = *state;
    uint32_t pids[4];
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    start_program(f, UNUSED_PID, "before", "/bin/before");
    const struct resource *before = resource_of(f, UNUSED_PID);
    start_program(f, UNUSED_PID, "after", "/bin/after");
    const struct resource *after = resource_of(f, UNUSED_PID);
    record_comm(f, UNUSED_PID, UNUSED_PID, "renamed");
    const struct resource *renamed = resource_of(f, UNUSED_PID);
    record_exit(f, UNUSED_PID, UNUSED_PID);
    assert_int_equal(processes_sweep(f->p, f->time_ns + 1, pids, array_size(pids)), 1);
    assert_null(processes_find(f->p, UNUSED_PID, 0));
    assert_string_equal(before->command, "before");
    assert_string_equal(before->service_name, "before");
    assert_string_equal(before->executable_path, "/bin/before");
    assert_string_equal(after->command, "after");
    assert_string_equal(after->executable_path, "/bin/after");
    assert_string_equal(renamed->command, "renamed");
    assert_string_equal(renamed->executable_path, "/bin/after");
}

static void test_resource_outlives_a_read_of_the_process(void **state)
{
    struct fixture *f = *state;
    int gate[2], ready[2];
    assert_int_equal(pipe(gate), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(gate[1]);
        dup2(gate[0], STDIN_FILENO);
        dup2(ready[1], STDOUT_FILENO);
        char *arguments[] = {"cat", NULL}, *environment[] = {"OTEL_SERVICE_NAME=cart", NULL};
        execve("/bin/cat", arguments, environment);
        _exit(127);
    }
    close(gate[0]);
    close(ready[1]);
    assert_int_equal(write(gate[1], "x", 1), 1);
    assert_int_equal(read(ready[0], &(char){0}, 1), 1); /* it has called exec() */
    close(ready[0]);
    const struct resource *r = resource_of(f, (uint32_t)pid);
    f->time_ns = clock_monotonic_ns();
    record_lost(f); /* an exec, perhaps: mappings and environment are read again */
    const struct resource *again = resource_of(f, (uint32_t)pid);
    assert_ptr_not_equal(again, r);
    assert_string_equal(r->service_name, "cart");
    assert_string_equal(r->command, "cat");
    assert_string_equal(r->executable_path, again->executable_path);
    assert_string_equal(again->service_name, "cart");
    close(gate[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_replaced_resources_are_freed_by_the_next_turn(void **state)
{
    struct fixture *f = *state;
    char comm[16];
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    start_program(f, UNUSED_PID, "0", "/bin/a");
    resource_of(f, UNUSED_PID);
    const double bytes = metric_value(f, "sonde_self_processes_bytes");
    for (int i = 1; i <= 100; i++) {
        snprintf(comm, sizeof(comm), "%d", i);
        record_comm(f, UNUSED_PID, UNUSED_PID, comm);
        assert_string_equal(resource_of(f, UNUSED_PID)->command, comm);
    }
    assert_true(metric_value(f, "sonde_self_processes_bytes") > bytes + 100 * sizeof(struct resource));
    processes_begin_turn(f->p);
    assert_true(metric_value(f, "sonde_self_processes_bytes") == bytes);
    assert_string_equal(resource_of(f, UNUSED_PID)->command, "100");
}

/* Evicting a process does not free its resource in this turn, so that eviction must not go on until it does. */
static void test_replaced_resources_do_not_evict_processes(void **state)
{
    struct fixture *f = *state;
    struct processes *kept = f->p;
    enum { BYTES = 256 << 10, RENAMED = 2000 };
    char comm[16];
    assert_int_equal(processes_new(BYTES, &f->p), 0);
    processes_set_replay(f->p);
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    for (int i = 0; i < RENAMED; i++) {
        snprintf(comm, sizeof(comm), "%d", i);
        record_comm(f, UNUSED_PID, UNUSED_PID, comm);
        resource_of(f, UNUSED_PID);
    }
    assert_true(metric_value(f, "sonde_self_processes_bytes") > BYTES);
    assert_true(metric_value(f, "sonde_self_processes_evicted") == 0);
    processes_free(f->p);
    f->p = kept;
}

static struct pods *make_pods(const char *name)
{
    _cleanup_buf_ struct buf metadata = {0}, sandbox = {0}, reply = {0};
    struct pods *pods;
    protobuf_put_bytes(&metadata, 1, name, strlen(name));
    protobuf_put_bytes(&metadata, 2, POD_UID, strlen(POD_UID));
    protobuf_put_bytes(&metadata, 3, "shop", strlen("shop"));
    protobuf_put_bytes(&sandbox, 1, CONTAINER, strlen(CONTAINER));
    protobuf_put_message(&sandbox, 2, &metadata);
    protobuf_put_message(&reply, 1, &sandbox);
    assert_int_equal(pods_read(&(struct pods_replies){reply.data, "", reply.size, 0}, "", &pods), 0);
    return pods;
}

/* Puts the process into a container, as its cgroup would. */
static void contain(struct fixture *f, uint32_t pid)
{
    static const char text[] = "0::/docker/" CONTAINER "\n";
    struct process_entry *e = processes_lookup(f->p, pid);
    assert_non_null(e);
    cgroup_unref(e->cgroup);
    e->cgroup = cgroups_by_text(f->p->cgroups, text, strlen(text));
    e->cgroup_known = e->service_known = true;
    assert_string_equal(e->cgroup->identity.container_id, CONTAINER);
}

static void test_resource_outlives_its_pods(void **state)
{
    struct fixture *f = *state;
    struct pods *first = make_pods("web-1"), *second = make_pods("web-2");
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    start_program(f, UNUSED_PID, "server", "/bin/server");
    contain(f, UNUSED_PID);
    const struct resource *none = resource_of(f, UNUSED_PID);
    processes_set_pods(f->p, first);
    pods_unref(first);
    const struct resource *of_first = resource_of(f, UNUSED_PID);
    processes_set_pods(f->p, second);
    pods_unref(second);
    const struct resource *of_second = resource_of(f, UNUSED_PID);
    processes_set_pods(f->p, NULL);
    assert_string_equal(none->pod, "");
    assert_string_equal(of_first->pod, "k8s.namespace.name\tshop\nk8s.pod.name\tweb-1\n");
    assert_string_equal(of_second->pod, "k8s.namespace.name\tshop\nk8s.pod.name\tweb-2\n");
    assert_string_equal(of_second->container_id, CONTAINER);
    processes_begin_turn(f->p);
    assert_string_equal(resource_of(f, UNUSED_PID)->pod, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_unchanged_process_keeps_its_resource),      TEST(test_resource_outlives_its_program_and_process),
        TEST(test_resource_outlives_a_read_of_the_process),   TEST(test_replaced_resources_are_freed_by_the_next_turn),
        TEST(test_replaced_resources_do_not_evict_processes), TEST(test_resource_outlives_its_pods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
