/* The process table: state read from /proc for processes older than the agent, or exited, or whose records were lost.
 */
#include "../process_records.h"

#include "../../emulated.h"
#include "resolve/process/processes_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void test_own_process_from_proc(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    const struct process *me = processes_find(f->p, (uint32_t)getpid(), 0);
    assert_non_null(me);
    assert_false(me->exited);
    assert_true(me->start_time_ns > 0 && me->start_time_ns < clock_monotonic_ns() + 30000000);
    const struct process_mapping *m = process_mapping_find(me, (uintptr_t)&test_own_process_from_proc);
    assert_non_null(m);
    assert_non_null(m->object);
    char path[4096] = "";
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    assert_string_equal(m->path, path);
    assert_true(strlen(m->object->build_id) >= 16);
    int fd = object_open(m->object);
    assert_true(fd >= 0);
    close(fd);
    assert_null(process_mapping_find(me, 1));
    assert_null(process_mapping_find(me, UINT64_MAX));

    const struct resource *r = processes_resource(f->p, me);
    assert_int_equal(r->pid, getpid());
    assert_int_equal(r->parent_pid, getppid());
    assert_string_equal(r->executable_path, path);
    char comm[17] = "";
    prctl(PR_GET_NAME, comm);
    assert_string_equal(r->command, comm);
    assert_true(r->service_name[0]);
    assert_true(r->cgroup_path[0] == '/' || access("/proc/self/cgroup", F_OK) != 0);
}

static void test_process_started_later_is_another(void **state)
{
    struct fixture *f = *state;
    processes_at(f->p, 1); /* the sample was taken right after boot; the present owner of the PID is another process */
    assert_null(processes_find(f->p, (uint32_t)getpid(), 0));
}

/* Forks a child that waits for a byte, and another that waits until it is killed. */
static pid_t start_child(int *ret_wait, const char *variable)
{
    int gate[2], ready[2];
    assert_int_equal(pipe(gate), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(gate[1]);
        close(ready[0]);
        dup2(gate[0], STDIN_FILENO);
        dup2(ready[1], STDOUT_FILENO);
        char *arguments[] = {"cat", NULL}, *environment[] = {(char *)variable, "SECRET=x", NULL};
        execve("/bin/cat", arguments, environment);
        _exit(127);
    }
    close(gate[0]);
    close(ready[1]);
    char byte = 0;
    assert_int_equal(write(gate[1], "x", 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1); /* it has called exec(): its mappings exist, too */
    assert_int_equal(byte, 'x');
    close(ready[0]);
    *ret_wait = gate[1];
    return pid;
}

static void end_child(pid_t pid, int gate)
{
    close(gate);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_service_name_from_the_environment(void **state)
{
    struct fixture *f = *state;
    int gate;
    pid_t pid = start_child(&gate, "OTEL_RESOURCE_ATTRIBUTES=service.name=cart,service.version=7");
    const struct process *process = processes_find(f->p, (uint32_t)pid, 0);
    assert_non_null(process);
    const struct resource *r = processes_resource(f->p, process);
    assert_string_equal(r->service_name, "cart");
    assert_string_equal(r->service_version, "7");
    assert_string_equal(r->command, "cat");
    /* Short-lived children use what the parent itself has. */
    record_fork(f, (uint32_t)pid, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "true");
    record_exit(f, UNUSED_PID, UNUSED_PID);
    process = processes_find(f->p, UNUSED_PID, 0);
    r = processes_resource(f->p, process);
    assert_string_equal(r->service_name, "cart");
    assert_string_equal(r->command, "true");
    assert_string_equal(r->cgroup_path, processes_resource(f->p, processes_find(f->p, (uint32_t)pid, 0))->cgroup_path);
    end_child(pid, gate);
}

/* A process that has exited, and whose exit was not yet reported, is in its sample's cgroup. */
static void test_cgroup_of_a_process_that_exits(void **state)
{
    struct fixture *f = *state;
    char folder[512], file[600], expected[128];
    struct stat st;
    snprintf(expected, sizeof(expected), "/docker-%064x.scope", (unsigned)getpid());
    snprintf(folder, sizeof(folder), "%s%s", cgroups_id_mount(f->p->cgroups), expected);
    snprintf(file, sizeof(file), "%s/cgroup.procs", folder);
    if (cgroups_is_unified(f->p->cgroups) || mkdir(folder, 0755) < 0)
        skip(); /* no hierarchy of v1, or no rights */
    assert_int_equal(stat(folder, &st), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(file, O_WRONLY);
        _exit(fd >= 0 && write(fd, "0", 1) == 1 ? 0 : 1);
    }
    siginfo_t end;
    assert_int_equal(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
    assert_int_equal(end.si_status, 0);
    const struct process *process = processes_find(f->p, (uint32_t)pid, st.st_ino);
    assert_non_null(process);
    assert_string_equal(processes_resource(f->p, process)->cgroup_path, expected);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(rmdir(folder), 0);
}

struct known_environment {
    uint32_t pid;
    bool lacks_service;
    uint64_t mount_namespace;
    unsigned calls;
    uint64_t since_ns;
};

static bool find_start(void *context, uint32_t pid, uint64_t since_ns, struct program_start *ret)
{
    struct known_environment *k = context;
    assert_int_equal(pid, k->pid);
    k->calls++;
    k->since_ns = since_ns;
    *ret = (struct program_start){.mount_namespace = k->mount_namespace, .lacks_service = k->lacks_service};
    return true;
}

/* Neither is the mount namespace: the process may have exited. */
static void test_mount_namespace_of_a_start_is_known(void **state)
{
    struct fixture *f = *state;
    struct known_environment known = {.pid = UNUSED_PID, .mount_namespace = 77};
    processes_know_starts(f->p, find_start, &known);
    record_fork(f, UNUSED_PID, UNUSED_PID, (uint32_t)getpid());
    record_exec(f, UNUSED_PID, "gone");
    record_mmap(f, UNUSED_PID, 0x1000, 0x2000, 0, "/gone");
    assert_int_equal(process_entry_of(processes_find(f->p, UNUSED_PID, 0))->view, 77);
}

static void test_environment_is_read_unless_it_is_known(void **state)
{
    struct fixture *f = *state;
    skip_if_emulated();
    for (int by_record = 0; by_record < 2; by_record++)
        for (int lacks = 0; lacks < 2; lacks++) {
            int gate;
            pid_t pid = start_child(&gate, "OTEL_SERVICE_NAME=cart");
            struct known_environment known = {.pid = (uint32_t)pid, .lacks_service = lacks};
            processes_know_starts(f->p, find_start, &known);
            f->time_ns = clock_monotonic_ns();
            if (by_record)
                record_exec(f, (uint32_t)pid, "cat");
            const struct process *process = processes_find(f->p, (uint32_t)pid, 0);
            const bool is_read = strcmp(processes_resource(f->p, process)->service_name, "cart") == 0;
            assert_int_equal(is_read, !by_record || !lacks);
            assert_int_equal(known.calls > 0, by_record); /* the exec of an older process was not seen */
            assert_true(known.since_ns == (by_record ? process->exec_time_ns : 0));
            record_fork(f, (uint32_t)pid, UNUSED_PID, UNUSED_PID);
            assert_true(process_entry_of(processes_find(f->p, UNUSED_PID, 0))->service_known); /* a copy */
            end_child(pid, gate);
        }
}

static void test_child_of_an_unread_parent(void **state)
{
    struct fixture *f = *state;
    int gate;
    pid_t pid = start_child(&gate, "OTEL_SERVICE_NAME=parent");
    f->time_ns = clock_monotonic_ns(); /* it started before the records that follow */
    /* The parent was not read when the child was forked, and the child is gone when it is needed. */
    record_fork(f, (uint32_t)pid, UNUSED_PID, UNUSED_PID);
    record_exit(f, UNUSED_PID, UNUSED_PID);
    const struct process *process = processes_find(f->p, UNUSED_PID, 0);
    assert_non_null(process);
    assert_true(process->mapping_count > 1);
    const struct resource *r = processes_resource(f->p, process);
    assert_string_equal(r->command, "cat");
    assert_string_equal(r->service_name, "parent");
    end_child(pid, gate);
}

static void test_exited_process_is_not_read_again(void **state)
{
    struct fixture *f = *state;
    int gate;
    pid_t pid = start_child(&gate, "A=b");
    const struct process *process = processes_find(f->p, (uint32_t)pid, 0);
    assert_non_null(process);
    const uint64_t version = process->mapping_version;
    const size_t count = process->mapping_count;
    end_child(pid, gate);
    record_exit(f, (uint32_t)pid, (uint32_t)pid);
    process = processes_find(f->p, (uint32_t)pid, 0);
    assert_non_null(process);
    assert_true(process->exited);
    assert_false(processes_read_mappings(f->p, process));
    assert_int_equal(process->mapping_version, version);
    assert_int_equal(process->mapping_count, count);
}

static void test_mappings_are_read_again(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    const struct process *me = processes_find(f->p, (uint32_t)getpid(), 0);
    assert_non_null(me);
    const uint64_t version = me->mapping_version;
    int fd = open("/proc/self/exe", O_RDONLY);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0); /* without a record */
    close(fd);
    assert_ptr_not_equal(at, MAP_FAILED);
    const bool too_soon = processes_read_mappings(f->p, me);
    assert_true(too_soon || !process_mapping_find(me, (uintptr_t)at));
    for (int i = 0; i < 40 && !process_mapping_find(me, (uintptr_t)at); i++) {
        usleep(100000);
        processes_read_mappings(f->p, me);
    }
    assert_non_null(process_mapping_find(me, (uintptr_t)at));
    assert_true(me->mapping_version > version);
    munmap(at, 4096);
}

static void test_lost_records_are_recovered_from_proc(void **state)
{
    struct fixture *f = *state;
    int gate;
    pid_t pid = start_child(&gate, "A=b");
    f->time_ns = clock_monotonic_ns(); /* it started before the records that follow */
    record_fork(f, 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "gone");
    /* The child has a wrong exec record (as if records had been lost in between); after the loss /proc is read. */
    record_exec(f, (uint32_t)pid, "wrong");
    assert_int_equal(processes_find(f->p, (uint32_t)pid, 0)->mapping_count, 0);
    record_lost(f);
    const struct process *process = processes_find(f->p, (uint32_t)pid, 0);
    assert_true(process->mapping_count > 1);
    assert_string_equal(processes_resource(f->p, process)->command, "cat");
    /* The exit record of the other one was lost. */
    uint32_t pids[4];
    processes_sweep(f->p, f->time_ns, pids, array_size(pids));
    assert_int_equal(processes_sweep(f->p, f->time_ns + 1, pids, array_size(pids)), 1);
    assert_int_equal(pids[0], UNUSED_PID);
    end_child(pid, gate);
}

static void test_kernel_thread_has_no_mappings(void **state)
{
    struct fixture *f = *state;
    char comm[32] = "";
    int fd = open("/proc/2/comm", O_RDONLY);
    if (fd < 0 || read(fd, comm, sizeof(comm) - 1) <= 0 || strcmp(comm, "kthreadd\n") != 0) {
        print_message("skipped: no kernel threads to be seen from here\n");
        if (fd >= 0)
            close(fd);
        skip();
    }
    close(fd);
    const struct process *process = processes_find(f->p, 2, 0);
    assert_non_null(process);
    assert_int_equal(process->mapping_count, 0);
    const struct resource *r = processes_resource(f->p, process);
    assert_string_equal(r->command, "kthreadd");
    assert_string_equal(r->executable_path, "");
    assert_string_equal(r->service_name, "kthreadd");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_own_process_from_proc),
        TEST(test_process_started_later_is_another),
        TEST(test_cgroup_of_a_process_that_exits),
        TEST(test_service_name_from_the_environment),
        TEST(test_environment_is_read_unless_it_is_known),
        TEST(test_mount_namespace_of_a_start_is_known),
        TEST(test_child_of_an_unread_parent),
        TEST(test_exited_process_is_not_read_again),
        TEST(test_mappings_are_read_again),
        TEST(test_lost_records_are_recovered_from_proc),
        TEST(test_kernel_thread_has_no_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
