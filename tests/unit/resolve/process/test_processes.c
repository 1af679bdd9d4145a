/* The process table: records of process lifecycle events, in every order. */
#include "../process_records.h"

#include "base/buf.h"
#include "model/metric.h"

#include "../../emulated.h"

#include <fcntl.h>
#include <stdlib.h>

static void test_unknown_process(void **state)
{
    struct fixture *f = *state;
    assert_null(processes_find(f->p, UNUSED_PID, 0));
    assert_null(processes_find(f->p, 0, 0));
}

static void test_replay_does_not_read_proc(void **state)
{
    struct fixture *f = *state;
    processes_set_replay(f->p);
    assert_null(processes_find(f->p, (uint32_t)getpid(), 1));
    record_fork(f, 1, (uint32_t)getpid(), (uint32_t)getpid()); /* an earlier process with our PID */
    record_exec(f, (uint32_t)getpid(), "then");
    record_mmap(f, (uint32_t)getpid(), 0x1000, 0x2000, 0, "/bin/then");
    record_lost(f);
    assert_mappings(f, (uint32_t)getpid(), "1000-2000+0 then");
    const struct resource *r = processes_resource(f->p, processes_find(f->p, (uint32_t)getpid(), 1));
    assert_string_equal(r->command, "then");
    assert_string_equal(r->cgroup_path, "");
}

static void test_replay_keeps_processes_without_exit_record(void **state)
{
    struct fixture *f = *state;
    uint32_t gone[4];
    processes_set_replay(f->p);
    record_fork(f, 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "then");
    record_mmap(f, UNUSED_PID, 0x1000, 0x2000, 0, "/bin/then");
    record_lost(f);
    for (int turn = 0; turn < 3; turn++)
        assert_int_equal(processes_sweep(f->p, UINT64_MAX / 2, gone, 4), 0);
    assert_mappings(f, UNUSED_PID, "1000-2000+0 then");
    assert_false(processes_find(f->p, UNUSED_PID, 0)->exited);
}

static void test_short_process_is_complete(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "true");
    record_mmap(f, UNUSED_PID, 0x400000, 0x500000, 0x2000, "/proc/self/exe"); /* any file that exists */
    record_mmap(f, UNUSED_PID, 0x7f0000, 0x7f8000, 0x1000, "/no/such/library.so");
    record_mmap(f, UNUSED_PID, 0x800000, 0x801000, 0, "//anon");
    record_exit(f, UNUSED_PID, UNUSED_PID);
    const struct process *process = processes_find(f->p, UNUSED_PID, 0);
    assert_non_null(process);
    assert_true(process->exited);
    assert_string_equal(mappings_text(process),
                        "400000-500000+2000 exe, 7f0000-7f8000+1000 library.so, 800000-801000+0 -");
    const struct resource *r = processes_resource(f->p, process);
    assert_string_equal(r->command, "true");
    assert_string_equal(r->service_name, "true");
    assert_string_equal(r->executable_path, "/proc/self/exe");
    assert_int_equal(r->parent_pid, UNUSED_PID + 1);
}

/* During exec nothing is mapped yet, and the new program is the one that runs. */
static void test_program_is_known_before_it_is_mapped(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "old");
    record_mmap(f, UNUSED_PID, 0x400000, 0x500000, 0, "/bin/old");
    assert_false(is_foreseen(f, UNUSED_PID, "/bin/other")); /* not after an exec */
    const struct resource *r = processes_resource(f->p, processes_find(f->p, UNUSED_PID, 0));
    assert_string_equal(r->executable_path, "/bin/old");
    record_exec(f, UNUSED_PID, "new");
    assert_false(is_foreseen(f, UNUSED_PID, "//anon"));
    assert_false(is_foreseen(f, UNUSED_PID, "[stack]"));
    assert_true(is_foreseen(f, UNUSED_PID, "/bin/new (deleted)"));
    r = processes_resource(f->p, processes_find(f->p, UNUSED_PID, 0));
    assert_string_equal(r->executable_path, "/bin/new");
    assert_mappings(f, UNUSED_PID, "");
    record_mmap(f, UNUSED_PID, 0x600000, 0x700000, 0, "/bin/new (deleted)");
    record_mmap(f, UNUSED_PID, 0x800000, 0x900000, 0, "/lib/ld.so");
    r = processes_resource(f->p, processes_find(f->p, UNUSED_PID, 0));
    assert_string_equal(r->executable_path, "/bin/new");
    assert_mappings(f, UNUSED_PID, "600000-700000+0 new, 800000-900000+0 ld.so");
}

static void test_fork_shares_until_one_changes(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "server");
    record_mmap(f, UNUSED_PID, 0x1000, 0x2000, 0, "/bin/server");
    record_fork(f, UNUSED_PID, UNUSED_PID + 2, UNUSED_PID + 2);
    record_mmap(f, UNUSED_PID + 2, 0x5000, 0x6000, 0, "/lib/plugin.so");
    record_mmap(f, UNUSED_PID, 0x8000, 0x9000, 0, "/lib/other.so");
    assert_mappings(f, UNUSED_PID, "1000-2000+0 server, 8000-9000+0 other.so");
    assert_mappings(f, UNUSED_PID + 2, "1000-2000+0 server, 5000-6000+0 plugin.so");
    const struct resource *r = processes_resource(f->p, processes_find(f->p, UNUSED_PID + 2, 0));
    assert_string_equal(r->command, "server");
    assert_string_equal(r->executable_path, "/bin/server");
    record_exit(f, UNUSED_PID, UNUSED_PID);
    uint32_t pids[4];
    assert_int_equal(processes_sweep(f->p, f->time_ns + 1, pids, 4), 1);
    assert_mappings(f, UNUSED_PID + 2, "1000-2000+0 server, 5000-6000+0 plugin.so");
}

static void test_name_outlives_the_process(void **state)
{
    struct fixture *f = *state;
    char name[16];
    uint32_t pids[4];
    processes_set_replay(f->p);
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    processes_command(f->p, UNUSED_PID + 3, name);
    assert_string_equal(name, "");
    record_exec(f, UNUSED_PID, "cc1");
    processes_command(f->p, UNUSED_PID, name);
    assert_string_equal(name, "cc1");
    record_exit(f, UNUSED_PID, UNUSED_PID);
    assert_int_equal(processes_sweep(f->p, f->time_ns + 1, pids, 4), 1);
    assert_null(processes_find(f->p, UNUSED_PID, 0));
    processes_command(f->p, UNUSED_PID, name);
    assert_string_equal(name, "cc1");
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID); /* the PID is used again */
    record_exec(f, UNUSED_PID, "ld");
    processes_command(f->p, UNUSED_PID, name);
    assert_string_equal(name, "ld");
}

static void test_exec_clears_mappings(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "sh");
    record_mmap(f, UNUSED_PID, 0x1000, 0x2000, 0, "/bin/sh");
    uint64_t version = processes_find(f->p, UNUSED_PID, 0)->mapping_version;
    record_exec(f, UNUSED_PID, "ls");
    assert_mappings(f, UNUSED_PID, "");
    assert_true(processes_find(f->p, UNUSED_PID, 0)->mapping_version > version);
    record_mmap(f, UNUSED_PID, 0x3000, 0x4000, 0, "/bin/ls");
    assert_mappings(f, UNUSED_PID, "3000-4000+0 ls");
    const struct resource *r = processes_resource(f->p, processes_find(f->p, UNUSED_PID, 0));
    assert_string_equal(r->executable_path, "/bin/ls");
    assert_string_equal(r->command, "ls");
}

static void test_mmap_replaces_what_it_covers(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "a");
    record_mmap(f, UNUSED_PID, 0x1000, 0x9000, 0x100000, "/a");
    record_mmap(f, UNUSED_PID, 0x3000, 0x4000, 0, "/b"); /* in the middle */
    assert_mappings(f, UNUSED_PID, "1000-3000+100000 a, 3000-4000+0 b, 4000-9000+103000 a");
    record_mmap(f, UNUSED_PID, 0x2000, 0x5000, 0, "/c"); /* over an end, a whole mapping and a beginning */
    assert_mappings(f, UNUSED_PID, "1000-2000+100000 a, 2000-5000+0 c, 5000-9000+104000 a");
    record_mmap(f, UNUSED_PID, 0x1000, 0x9000, 0, "/d"); /* exactly over all */
    assert_mappings(f, UNUSED_PID, "1000-9000+0 d");
    record_mmap(f, UNUSED_PID, 0, 0x10000, 0, "/e");
    assert_mappings(f, UNUSED_PID, "0-10000+0 e");
    record_mmap(f, UNUSED_PID, 0x10000, 0x11000, 0, "/f"); /* touches, does not cover */
    assert_mappings(f, UNUSED_PID, "0-10000+0 e, 10000-11000+0 f");
}

static void copy_self(const char *path)
{
    _cleanup_buf_ struct buf self = {0};
    assert_int_equal(buf_read_file(&self, "/proc/self/exe", 64 << 20), 0);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
    assert_true(fd >= 0 && write(fd, self.data, self.size) == (ssize_t)self.size);
}

/* Copies of one program are one object with shared unwind table and names; but each process has its own path. */
static void test_copies_share_all_but_paths(void **state)
{
    struct fixture *f = *state;
    if (is_emulated()) {
        print_message("runs under qemu-user, which may have no openat2\n");
        skip();
    }
    char folder[] = "/tmp/sonde-copies-XXXXXX", a[64], b[64];
    assert_non_null(mkdtemp(folder));
    snprintf(a, sizeof(a), "%s/prog-a", folder);
    snprintf(b, sizeof(b), "%s/prog-b", folder);
    copy_self(a);
    copy_self(b);
    const char *const programs[] = {a, b, a};
    const struct process_mapping *m[3];
    for (uint32_t i = 0; i < 3; i++) {
        record_fork(f, 1, UNUSED_PID + i, UNUSED_PID + i);
        record_exec(f, UNUSED_PID + i, "copy");
        record_mmap(f, UNUSED_PID + i, 0x1000, 0x2000, 0, programs[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        m[i] = process_mapping_find(processes_find(f->p, UNUSED_PID + i, 0), 0x1000);
        assert_non_null(m[i]);
        assert_string_equal(m[i]->path, programs[i]);
    }
    assert_ptr_equal(m[0]->object, m[1]->object);
    assert_true(strlen(m[0]->object->build_id) >= 16);
    assert_ptr_equal(m[0]->path, m[2]->path); /* one string per path */
    record_fork(f, UNUSED_PID + 1, UNUSED_PID + 3, UNUSED_PID + 3);
    record_mmap(f, UNUSED_PID + 1, 0x0, 0x3000, 0, a);
    assert_mappings(f, UNUSED_PID + 1, "0-3000+0 prog-a");
    assert_mappings(f, UNUSED_PID + 3, "1000-2000+0 prog-b");
    unlink(a);
    unlink(b);
    rmdir(folder);
}

static void test_adjacent_anonymous_mappings_are_joined(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "node");
    for (uint64_t i = 0; i < 1000; i += 2)
        record_mmap(f, UNUSED_PID, 0x1000 * i, 0x1000 * (i + 1), 0, "//anon");
    for (uint64_t i = 1; i < 1000; i += 2)
        record_mmap(f, UNUSED_PID, 0x1000 * i, 0x1000 * (i + 1), 0, "//anon");
    assert_mappings(f, UNUSED_PID, "0-3e8000+0 -");
}

static void test_command_is_that_of_the_main_thread(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "server");
    record_fork(f, UNUSED_PID, UNUSED_PID, UNUSED_PID + 5);
    record_comm(f, UNUSED_PID, UNUSED_PID + 5, "worker");
    const struct process *process = processes_find(f->p, UNUSED_PID, 0);
    assert_string_equal(processes_resource(f->p, process)->command, "server");
    record_comm(f, UNUSED_PID, UNUSED_PID, "renamed");
    process = processes_find(f->p, UNUSED_PID, 0);
    assert_string_equal(processes_resource(f->p, process)->command, "renamed");
}

static void test_thread_exit_is_not_process_exit(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "server");
    record_fork(f, UNUSED_PID, UNUSED_PID, UNUSED_PID + 5);
    record_fork(f, UNUSED_PID, UNUSED_PID, UNUSED_PID + 6);
    record_exit(f, UNUSED_PID, UNUSED_PID + 5);
    assert_false(processes_find(f->p, UNUSED_PID, 0)->exited);
    record_exit(f, UNUSED_PID, UNUSED_PID); /* the main thread, before the other threads */
    assert_false(processes_find(f->p, UNUSED_PID, 0)->exited);
    record_exit(f, UNUSED_PID, UNUSED_PID + 6);
    assert_true(processes_find(f->p, UNUSED_PID, 0)->exited);
}

static void test_exec_by_another_thread(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "a");
    record_fork(f, UNUSED_PID, UNUSED_PID, UNUSED_PID + 5);
    record_exit(f, UNUSED_PID, UNUSED_PID); /* the kernel ends the main thread, and the other one takes its id */
    record_exec(f, UNUSED_PID, "b");
    assert_false(processes_find(f->p, UNUSED_PID, 0)->exited);
    record_exit(f, UNUSED_PID, UNUSED_PID);
    assert_true(processes_find(f->p, UNUSED_PID, 0)->exited);
}

static void test_reused_pid_is_another_process(void **state)
{
    struct fixture *f = *state;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "old");
    record_mmap(f, UNUSED_PID, 0x1000, 0x2000, 0, "/old");
    uint64_t start = processes_find(f->p, UNUSED_PID, 0)->start_time_ns,
             version = processes_find(f->p, UNUSED_PID, 0)->mapping_version;
    record_exit(f, UNUSED_PID, UNUSED_PID);
    f->time_ns += 100000000;
    record_fork(f, UNUSED_PID + 1, UNUSED_PID, UNUSED_PID); /* before the sweep */
    record_exec(f, UNUSED_PID, "new");
    const struct process *process = processes_find(f->p, UNUSED_PID, 0);
    assert_false(process->exited);
    assert_true(process->start_time_ns > start);
    assert_true(process->mapping_version > version);
    assert_int_equal(process->mapping_count, 0);
    assert_string_equal(processes_resource(f->p, process)->command, "new");
    uint32_t pids[4];
    assert_int_equal(processes_sweep(f->p, f->time_ns + 1, pids, 4), 0);
    assert_non_null(processes_find(f->p, UNUSED_PID, 0));
}

static void test_sweep_reports_all_exited_pids(void **state)
{
    struct fixture *f = *state;
    uint64_t middle = 0;
    for (uint32_t i = 0; i < 100; i++) {
        record_fork(f, 1, UNUSED_PID + i, UNUSED_PID + i);
        record_exit(f, UNUSED_PID + i, UNUSED_PID + i);
        if (i == 49)
            middle = f->time_ns + 1;
    }
    uint32_t pids[32];
    size_t n, sum = 0;
    do {
        n = processes_sweep(f->p, middle, pids, array_size(pids));
        for (size_t i = 0; i < n; i++)
            assert_int_equal(pids[i], UNUSED_PID + sum + i);
        sum += n;
    } while (n == array_size(pids));
    assert_int_equal(sum, 50);
    assert_null(processes_find(f->p, UNUSED_PID + 49, 0));
    assert_non_null(processes_find(f->p, UNUSED_PID + 50, 0));
}

static void test_memory_is_bounded(void **state)
{
    struct fixture *f = *state;
    enum { PROCESSES = 20000, BYTES = 1 << 20 };
    struct processes *p = NULL;
    assert_int_equal(processes_new(BYTES, &p), 0);
    processes_set_replay(p); /* the processes below are not in /proc, and each lookup would take time */
    struct processes *kept = f->p;
    f->p = p;
    for (uint32_t i = 0; i < PROCESSES; i++) { /* the processes never exit */
        record_fork(f, UNUSED_PID + i - 1, UNUSED_PID + i, UNUSED_PID + i);
        record_exec(f, UNUSED_PID + i, "storm");
        record_mmap(f, UNUSED_PID + i, 0x1000, 0x2000, 0, "/bin/storm");
        record_mmap(f, UNUSED_PID + i, 0x5000, 0x6000, 0, "/lib/storm.so");
    }
    struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    processes_metrics(p, set);
    double bytes = 0, evicted = 0, known = 0;
    for (size_t i = 0; i < metric_set_families(set); i++) {
        struct metric_family family = metric_set_family(set, i);
        double *to = strcmp(family.name, "sonde_self_processes_bytes") == 0     ? &bytes
                     : strcmp(family.name, "sonde_self_processes_evicted") == 0 ? &evicted
                     : strcmp(family.name, "sonde_self_processes") == 0         ? &known
                                                                                : NULL;
        if (to)
            *to = family.points[0].value;
    }
    metric_set_free(set);
    assert_true(bytes > 0 && bytes <= BYTES);
    assert_true(evicted > 0);
    assert_int_equal((int)(evicted + known), PROCESSES);
    assert_mappings(f, UNUSED_PID + PROCESSES - 1, "1000-2000+0 storm, 5000-6000+0 storm.so"); /* the newest are kept */
    uint32_t pids[512];
    size_t n, reported = 0;
    while ((n = processes_sweep(p, f->time_ns, pids, array_size(pids))) > 0)
        reported += n;
    assert_true(reported >= 1024); /* evicted PIDs are reported, as far as they fit into the list */
    processes_free(p);
    f->p = kept;
}

static void test_damaged_records_are_refused(void **state)
{
    struct fixture *f = *state;
    record_fork(f, 1, UNUSED_PID, UNUSED_PID);
    record_exec(f, UNUSED_PID, "a");
    union {
        struct process_mmap r;
        char room[sizeof(struct process_mmap) + 64];
    } m = {.r = {.start = 0x1000, .size_bytes = 0x1000, .path_bytes = 5}};
    memcpy(m.r.path, "/abc", 5);
    m.r.h = header(f, RECORD_PROCESS_MMAP, sizeof(m.r) + 8, UNUSED_PID, UNUSED_PID);
    union {
        struct process_mmap r;
        char room[sizeof(struct process_mmap) + 64];
    } damaged;
    memcpy(&damaged, &m, sizeof(m));
    damaged.r.path_bytes = 6000; /* past the record */
    processes_apply(f->p, &damaged.r.h);
    memcpy(&damaged, &m, sizeof(m));
    damaged.r.path[4] = 'x'; /* no NUL */
    processes_apply(f->p, &damaged.r.h);
    memcpy(&damaged, &m, sizeof(m));
    damaged.r.size_bytes = UINT64_MAX; /* wraps around the address space */
    processes_apply(f->p, &damaged.r.h);
    memcpy(&damaged, &m, sizeof(m));
    damaged.r.h.size_bytes = sizeof(struct record_header);
    processes_apply(f->p, &damaged.r.h);
    assert_mappings(f, UNUSED_PID, "");
    memcpy(&damaged, &m, sizeof(m));
    damaged.r.build_id_bytes = 200; /* longer than its array: refused */
    processes_apply(f->p, &damaged.r.h);
    assert_mappings(f, UNUSED_PID, "1000-2000+0 abc");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_unknown_process),
        TEST(test_replay_does_not_read_proc),
        TEST(test_replay_keeps_processes_without_exit_record),
        TEST(test_short_process_is_complete),
        TEST(test_program_is_known_before_it_is_mapped),
        TEST(test_fork_shares_until_one_changes),
        TEST(test_name_outlives_the_process),
        TEST(test_exec_clears_mappings),
        TEST(test_mmap_replaces_what_it_covers),
        TEST(test_copies_share_all_but_paths),
        TEST(test_adjacent_anonymous_mappings_are_joined),
        TEST(test_command_is_that_of_the_main_thread),
        TEST(test_thread_exit_is_not_process_exit),
        TEST(test_exec_by_another_thread),
        TEST(test_reused_pid_is_another_process),
        TEST(test_sweep_reports_all_exited_pids),
        TEST(test_memory_is_bounded),
        TEST(test_damaged_records_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
