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
    assert_null(processes_find(f->p, NOBODY, 0));
    assert_null(processes_find(f->p, 0, 0));
}

static void test_replay_does_not_read_proc(void **state)
{
    struct fixture *f = *state;
    processes_set_replay(f->p);
    assert_null(processes_find(f->p, (uint32_t)getpid(), 1));
    tell_fork(f, 1, (uint32_t)getpid(), (uint32_t)getpid()); /* an earlier process with our PID */
    tell_exec(f, (uint32_t)getpid(), "then");
    tell_mmap(f, (uint32_t)getpid(), 0x1000, 0x2000, 0, "/bin/then");
    tell_lost(f);
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
    tell_fork(f, 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "then");
    tell_mmap(f, NOBODY, 0x1000, 0x2000, 0, "/bin/then");
    tell_lost(f);
    for (int turn = 0; turn < 3; turn++)
        assert_int_equal(processes_sweep(f->p, UINT64_MAX / 2, gone, 4), 0);
    assert_mappings(f, NOBODY, "1000-2000+0 then");
    assert_false(processes_find(f->p, NOBODY, 0)->exited);
}

static void test_short_process_is_complete(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "true");
    tell_mmap(f, NOBODY, 0x400000, 0x500000, 0x2000, "/proc/self/exe"); /* any file that exists */
    tell_mmap(f, NOBODY, 0x7f0000, 0x7f8000, 0x1000, "/no/such/library.so");
    tell_mmap(f, NOBODY, 0x800000, 0x801000, 0, "//anon");
    tell_exit(f, NOBODY, NOBODY);
    const struct process *process = processes_find(f->p, NOBODY, 0);
    assert_non_null(process);
    assert_true(process->exited);
    assert_string_equal(mappings_text(process),
                        "400000-500000+2000 exe, 7f0000-7f8000+1000 library.so, 800000-801000+0 -");
    const struct resource *r = processes_resource(f->p, process);
    assert_string_equal(r->command, "true");
    assert_string_equal(r->service_name, "true");
    assert_string_equal(r->executable_path, "/proc/self/exe");
    assert_int_equal(r->parent_pid, NOBODY + 1);
}

/* During exec nothing is mapped yet, and the new program is the one that runs. */
static void test_program_is_known_before_it_is_mapped(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "old");
    tell_mmap(f, NOBODY, 0x400000, 0x500000, 0, "/bin/old");
    assert_false(foresee(f, NOBODY, "/bin/other")); /* not after an exec */
    const struct resource *r = processes_resource(f->p, processes_find(f->p, NOBODY, 0));
    assert_string_equal(r->executable_path, "/bin/old");
    tell_exec(f, NOBODY, "new");
    assert_false(foresee(f, NOBODY, "//anon"));
    assert_false(foresee(f, NOBODY, "[stack]"));
    assert_true(foresee(f, NOBODY, "/bin/new (deleted)"));
    r = processes_resource(f->p, processes_find(f->p, NOBODY, 0));
    assert_string_equal(r->executable_path, "/bin/new");
    assert_mappings(f, NOBODY, "");
    tell_mmap(f, NOBODY, 0x600000, 0x700000, 0, "/bin/new (deleted)");
    tell_mmap(f, NOBODY, 0x800000, 0x900000, 0, "/lib/ld.so");
    r = processes_resource(f->p, processes_find(f->p, NOBODY, 0));
    assert_string_equal(r->executable_path, "/bin/new");
    assert_mappings(f, NOBODY, "600000-700000+0 new, 800000-900000+0 ld.so");
}

static void test_fork_shares_until_one_changes(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "server");
    tell_mmap(f, NOBODY, 0x1000, 0x2000, 0, "/bin/server");
    tell_fork(f, NOBODY, NOBODY + 2, NOBODY + 2);
    tell_mmap(f, NOBODY + 2, 0x5000, 0x6000, 0, "/lib/plugin.so");
    tell_mmap(f, NOBODY, 0x8000, 0x9000, 0, "/lib/other.so");
    assert_mappings(f, NOBODY, "1000-2000+0 server, 8000-9000+0 other.so");
    assert_mappings(f, NOBODY + 2, "1000-2000+0 server, 5000-6000+0 plugin.so");
    const struct resource *r = processes_resource(f->p, processes_find(f->p, NOBODY + 2, 0));
    assert_string_equal(r->command, "server");
    assert_string_equal(r->executable_path, "/bin/server");
    tell_exit(f, NOBODY, NOBODY);
    uint32_t pids[4];
    assert_int_equal(processes_sweep(f->p, f->time_ns + 1, pids, 4), 1);
    assert_mappings(f, NOBODY + 2, "1000-2000+0 server, 5000-6000+0 plugin.so");
}

static void test_exec_clears_mappings(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "sh");
    tell_mmap(f, NOBODY, 0x1000, 0x2000, 0, "/bin/sh");
    uint64_t version = processes_find(f->p, NOBODY, 0)->mapping_version;
    tell_exec(f, NOBODY, "ls");
    assert_mappings(f, NOBODY, "");
    assert_true(processes_find(f->p, NOBODY, 0)->mapping_version > version);
    tell_mmap(f, NOBODY, 0x3000, 0x4000, 0, "/bin/ls");
    assert_mappings(f, NOBODY, "3000-4000+0 ls");
    const struct resource *r = processes_resource(f->p, processes_find(f->p, NOBODY, 0));
    assert_string_equal(r->executable_path, "/bin/ls");
    assert_string_equal(r->command, "ls");
}

static void test_mmap_replaces_what_it_covers(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "a");
    tell_mmap(f, NOBODY, 0x1000, 0x9000, 0x100000, "/a");
    tell_mmap(f, NOBODY, 0x3000, 0x4000, 0, "/b"); /* in the middle */
    assert_mappings(f, NOBODY, "1000-3000+100000 a, 3000-4000+0 b, 4000-9000+103000 a");
    tell_mmap(f, NOBODY, 0x2000, 0x5000, 0, "/c"); /* over an end, a whole mapping and a beginning */
    assert_mappings(f, NOBODY, "1000-2000+100000 a, 2000-5000+0 c, 5000-9000+104000 a");
    tell_mmap(f, NOBODY, 0x1000, 0x9000, 0, "/d"); /* exactly over all */
    assert_mappings(f, NOBODY, "1000-9000+0 d");
    tell_mmap(f, NOBODY, 0, 0x10000, 0, "/e");
    assert_mappings(f, NOBODY, "0-10000+0 e");
    tell_mmap(f, NOBODY, 0x10000, 0x11000, 0, "/f"); /* touches, does not cover */
    assert_mappings(f, NOBODY, "0-10000+0 e, 10000-11000+0 f");
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
        tell_fork(f, 1, NOBODY + i, NOBODY + i);
        tell_exec(f, NOBODY + i, "copy");
        tell_mmap(f, NOBODY + i, 0x1000, 0x2000, 0, programs[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        m[i] = process_mapping_find(processes_find(f->p, NOBODY + i, 0), 0x1000);
        assert_non_null(m[i]);
        assert_string_equal(m[i]->path, programs[i]);
    }
    assert_ptr_equal(m[0]->object, m[1]->object);
    assert_true(strlen(m[0]->object->build_id) >= 16);
    assert_ptr_equal(m[0]->path, m[2]->path); /* one string per path */
    tell_fork(f, NOBODY + 1, NOBODY + 3, NOBODY + 3);
    tell_mmap(f, NOBODY + 1, 0x0, 0x3000, 0, a);
    assert_mappings(f, NOBODY + 1, "0-3000+0 prog-a");
    assert_mappings(f, NOBODY + 3, "1000-2000+0 prog-b");
    unlink(a);
    unlink(b);
    rmdir(folder);
}

static void test_adjacent_anonymous_mappings_are_joined(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "node");
    for (uint64_t i = 0; i < 1000; i += 2)
        tell_mmap(f, NOBODY, 0x1000 * i, 0x1000 * (i + 1), 0, "//anon");
    for (uint64_t i = 1; i < 1000; i += 2)
        tell_mmap(f, NOBODY, 0x1000 * i, 0x1000 * (i + 1), 0, "//anon");
    assert_mappings(f, NOBODY, "0-3e8000+0 -");
}

static void test_command_is_that_of_the_main_thread(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "server");
    tell_fork(f, NOBODY, NOBODY, NOBODY + 5);
    tell_comm(f, NOBODY, NOBODY + 5, "worker");
    const struct process *process = processes_find(f->p, NOBODY, 0);
    assert_string_equal(processes_resource(f->p, process)->command, "server");
    tell_comm(f, NOBODY, NOBODY, "renamed");
    process = processes_find(f->p, NOBODY, 0);
    assert_string_equal(processes_resource(f->p, process)->command, "renamed");
}

static void test_thread_exit_is_not_process_exit(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "server");
    tell_fork(f, NOBODY, NOBODY, NOBODY + 5);
    tell_fork(f, NOBODY, NOBODY, NOBODY + 6);
    tell_exit(f, NOBODY, NOBODY + 5);
    assert_false(processes_find(f->p, NOBODY, 0)->exited);
    tell_exit(f, NOBODY, NOBODY); /* the main thread, before the other threads */
    assert_false(processes_find(f->p, NOBODY, 0)->exited);
    tell_exit(f, NOBODY, NOBODY + 6);
    assert_true(processes_find(f->p, NOBODY, 0)->exited);
}

static void test_exec_by_another_thread(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "a");
    tell_fork(f, NOBODY, NOBODY, NOBODY + 5);
    tell_exit(f, NOBODY, NOBODY); /* the kernel ends the main thread, and the other one takes its id */
    tell_exec(f, NOBODY, "b");
    assert_false(processes_find(f->p, NOBODY, 0)->exited);
    tell_exit(f, NOBODY, NOBODY);
    assert_true(processes_find(f->p, NOBODY, 0)->exited);
}

static void test_reused_pid_is_another_process(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "old");
    tell_mmap(f, NOBODY, 0x1000, 0x2000, 0, "/old");
    uint64_t start = processes_find(f->p, NOBODY, 0)->start_time_ns,
             version = processes_find(f->p, NOBODY, 0)->mapping_version;
    tell_exit(f, NOBODY, NOBODY);
    f->time_ns += 100000000;
    tell_fork(f, NOBODY + 1, NOBODY, NOBODY); /* before the sweep */
    tell_exec(f, NOBODY, "new");
    const struct process *process = processes_find(f->p, NOBODY, 0);
    assert_false(process->exited);
    assert_true(process->start_time_ns > start);
    assert_true(process->mapping_version > version);
    assert_int_equal(process->mapping_count, 0);
    assert_string_equal(processes_resource(f->p, process)->command, "new");
    uint32_t pids[4];
    assert_int_equal(processes_sweep(f->p, f->time_ns + 1, pids, 4), 0);
    assert_non_null(processes_find(f->p, NOBODY, 0));
}

static void test_sweep_reports_all_exited_pids(void **state)
{
    struct fixture *f = *state;
    uint64_t middle = 0;
    for (uint32_t i = 0; i < 100; i++) {
        tell_fork(f, 1, NOBODY + i, NOBODY + i);
        tell_exit(f, NOBODY + i, NOBODY + i);
        if (i == 49)
            middle = f->time_ns + 1;
    }
    uint32_t pids[32];
    size_t n, sum = 0;
    do {
        n = processes_sweep(f->p, middle, pids, array_size(pids));
        for (size_t i = 0; i < n; i++)
            assert_int_equal(pids[i], NOBODY + sum + i);
        sum += n;
    } while (n == array_size(pids));
    assert_int_equal(sum, 50);
    assert_null(processes_find(f->p, NOBODY + 49, 0));
    assert_non_null(processes_find(f->p, NOBODY + 50, 0));
}

static void test_memory_is_bounded(void **state)
{
    struct fixture *f = *state;
    enum { LIVES = 20000, BYTES = 1 << 20 };
    struct processes *p = NULL;
    assert_int_equal(processes_new(BYTES, &p), 0);
    processes_set_replay(p); /* none of these is in /proc, and each lookup would take time */
    struct processes *kept = f->p;
    f->p = p;
    for (uint32_t i = 0; i < LIVES; i++) { /* none of which ever exits */
        tell_fork(f, NOBODY + i - 1, NOBODY + i, NOBODY + i);
        tell_exec(f, NOBODY + i, "storm");
        tell_mmap(f, NOBODY + i, 0x1000, 0x2000, 0, "/bin/storm");
        tell_mmap(f, NOBODY + i, 0x5000, 0x6000, 0, "/lib/storm.so");
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
    assert_int_equal((int)(evicted + known), LIVES);
    assert_mappings(f, NOBODY + LIVES - 1, "1000-2000+0 storm, 5000-6000+0 storm.so"); /* the newest are kept */
    uint32_t pids[512];
    size_t n, told = 0;
    while ((n = processes_sweep(p, f->time_ns, pids, array_size(pids))) > 0)
        told += n;
    assert_true(told >= 1024); /* evicted PIDs are reported, as far as they fit into the list */
    processes_free(p);
    f->p = kept;
}

static void test_damaged_records_are_refused(void **state)
{
    struct fixture *f = *state;
    tell_fork(f, 1, NOBODY, NOBODY);
    tell_exec(f, NOBODY, "a");
    union {
        struct process_mmap r;
        char room[sizeof(struct process_mmap) + 64];
    } m = {.r = {.start = 0x1000, .size_bytes = 0x1000, .path_bytes = 5}};
    memcpy(m.r.path, "/abc", 5);
    m.r.h = header(f, RECORD_PROCESS_MMAP, sizeof(m.r) + 8, NOBODY, NOBODY);
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
    assert_mappings(f, NOBODY, "");
    memcpy(&damaged, &m, sizeof(m));
    damaged.r.build_id_bytes = 200; /* longer than its array: refused */
    processes_apply(f->p, &damaged.r.h);
    assert_mappings(f, NOBODY, "1000-2000+0 abc");
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
