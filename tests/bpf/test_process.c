/* Process lifecycle events in order, and the report of events that the kernel could not record. */
#include "watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct life {
    pid_t pid;
    char path[64];
    unsigned stage; /* fork, exec, mmap, exit, in this order */
    uint64_t last_ns;
};

static bool check_life(const struct record_header *header, void *context)
{
    const struct process_fork *fork_record = (const struct process_fork *)header;
    const struct process_mmap *mmap_record = (const struct process_mmap *)header;
    struct life *l = context;
    static const uint16_t kinds[] = {RECORD_PROCESS_FORK, RECORD_PROCESS_EXEC, RECORD_PROCESS_MMAP,
                                     RECORD_PROCESS_EXIT};

    if ((pid_t)header->pid != l->pid || l->stage >= 4 || header->kind != kinds[l->stage])
        return false;
    assert_true(header->time_ns >= l->last_ns);
    l->last_ns = header->time_ns;
    if (header->kind == RECORD_PROCESS_FORK)
        assert_int_equal(fork_record->parent_pid, getpid());
    if (header->kind == RECORD_PROCESS_EXEC)
        assert_string_equal(((const struct process_exec *)header)->comm, "exe");
    if (header->kind == RECORD_PROCESS_MMAP) {
        assert_true(mmap_record->size_bytes > 0);
        if (!strstr(mmap_record->path, l->path))
            return false;
        assert_true(mmap_record->build_id_bytes > 0 || mmap_record->inode > 0);
    }
    l->stage++;
    return true;
}

static void test_lifecycle_events_are_in_order(void **state)
{
    struct watch w = watch_begin(&source_process, &watch_defaults);
    struct life l = {0};
    char exe[4096] = {0};
    int status;

    (void)state;
    assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
    snprintf(l.path, sizeof(l.path), "%.63s", strrchr(exe, '/') + 1);
    l.pid = fork();
    if (l.pid == 0) {
        execl("/proc/self/exe", "exe", "--live", NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(l.pid, &status, 0), l.pid);
    assert_int_equal(status, 0);
    watch_until(&w, 4, check_life, &l);
    watch_end(&w);
}

static uint64_t own_mount_namespace(void)
{
    struct stat st;
    assert_int_equal(stat("/proc/self/ns/mnt", &st), 0);
    return st.st_ino;
}

/* Runs a program with these environment variables (NULL: none). Returns whether it is known to lack OpenTelemetry's. */
static bool lacks_service(const struct watch *w, const char *first, const char *second)
{
    const uint64_t began_ns = clock_monotonic_ns();
    int status;
    const pid_t pid = fork();

    if (pid == 0) {
        char *arguments[] = {"exe", "--live", NULL}, *environment[] = {(char *)first, (char *)second, NULL};
        execve("/proc/self/exe", arguments, environment);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    struct program_start start;
    assert_false(
        process_source_find_start(w->self, (uint32_t)pid, clock_monotonic_ns(), &start)); /* a later program's */
    assert_true(process_source_find_start(w->self, (uint32_t)pid, began_ns, &start));
    assert_true(start.mount_namespace == own_mount_namespace());
    return start.lacks_service;
}

static void test_environments_without_a_service_are_known(void **state)
{
    struct watch w = watch_begin(&source_process, &watch_defaults);
    char padding[16384] = "P=";

    (void)state;
    assert_true(lacks_service(&w, NULL, NULL));
    assert_true(lacks_service(&w, "A=b", "OTE=LOTE"));
    assert_false(lacks_service(&w, "OTEL_SERVICE_NAME=x", NULL));
    /* At every offset around the ends of the pieces that the program reads. */
    memset(padding + 2, 'x', sizeof(padding) - 3);
    for (size_t size = 230; size < 270; size++) {
        padding[size] = 0;
        assert_true(lacks_service(&w, padding, "A=b"));
        assert_false(lacks_service(&w, padding, "OTEL_SERVICE_NAME=x"));
        memcpy(padding + size - 4, "OTEL", 4);
        assert_false(lacks_service(&w, padding, NULL));
        memset(padding + size - 4, 'x', 5);
    }
    assert_false(lacks_service(&w, padding, NULL)); /* too long */
    watch_end(&w);
}

static bool check_lost(const struct record_header *header, void *context)
{
    (void)context;
    return header->kind == RECORD_PROCESS_LOST && ((const struct process_lost *)header)->events > 0;
}

/* A CPU that comes online runs briefly before it has a perf event: the process table may be wrong from then on. */
static void test_cpu_online_is_reported_as_missed_events(void **state)
{
    unsigned cpu = (unsigned)sysconf(_SC_NPROCESSORS_CONF) - 1;

    (void)state;
    if (cpu == 0 || !watch_set_online(cpu, true)) {
        print_message("skipped: no CPU can be switched off here\n");
        skip();
    }
    struct watch w = watch_begin(&source_process, &watch_defaults);
    struct losses losses = {0};

    assert_true(watch_set_online(cpu, false));
    assert_true(watch_set_online(cpu, true));
    watch_until(&w, 1, check_lost, NULL);
    w.source->losses(w.self, &losses);
    assert_true(losses.count[LOSS_SIDEBAND] > 0);
    w.source->free(w.self);
    batch_free(w.batch);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lifecycle_events_are_in_order),
        cmocka_unit_test(test_environments_without_a_service_are_known),
        cmocka_unit_test(test_cpu_online_is_reported_as_missed_events),
    };

    if (argc > 1 && strcmp(argv[1], "--live") == 0)
        return 0;
    if (geteuid() != 0) {
        printf("skipped: perf events of all CPUs need root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
