/* Files with the wanted provider, from the first process that maps them to the last: found over several turns, and
 * also for processes that the process table has evicted. */
#include "resolve/usdt/usdt_providers.h"

#include <sonde/probe.h>

#include "base/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../emulated.h"

#define PROVIDER "sonde_test_providers"

struct fixture {
    struct processes *processes;
    struct usdt_providers *providers;
    struct sonde_provider *provider;
    size_t appeared, refused, gone, unmapped;
    uint32_t unmapped_pid;
    bool has_no_room;
};

static int on_appeared(void *context, const struct usdt_provider_file *file, void **ret)
{
    struct fixture *f = context;
    assert_true(file->fd >= 0 && file->probes->count > 0);
    f->refused += f->has_no_room;
    if (f->has_no_room)
        return -ENOSPC;
    f->appeared++;
    *ret = f;
    return 0;
}

static void on_gone(void *context, void *taken)
{
    struct fixture *f = context;
    assert_ptr_equal(taken, f);
    f->gone++;
}

static void unmapped(void *context, uint32_t pid)
{
    struct fixture *f = context;
    f->unmapped++;
    f->unmapped_pid = pid;
}

static int set_up(void **state)
{
    struct sonde_probe *probe;
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    assert_int_equal(processes_new(16 << 20, &f->processes), 0);
    /* Before the provider is loaded: the helper is forked from this process, and would have it too. */
    assert_int_equal(processes_start_helper(f->processes), 0);
    assert_int_equal(sonde_provider_new(PROVIDER, &f->provider), 0);
    assert_int_equal(sonde_probe_add(f->provider, "probe", "u64 a", &probe), 0);
    assert_int_equal(sonde_provider_load(f->provider), 0);
    const struct usdt_providers_options options = {.processes = f->processes,
                                                   .provider = PROVIDER,
                                                   .context = f,
                                                   .appeared = on_appeared,
                                                   .gone = on_gone,
                                                   .unmapped = unmapped};
    assert_int_equal(usdt_providers_new(&options, &f->providers), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    usdt_providers_free(f->providers);
    assert_int_equal(f->gone, f->appeared);
    processes_free(f->processes);
    sonde_provider_free(f->provider);
    free(f);
    return 0;
}

/* Memory files are opened through /proc/PID/map_files, which shows an emulator's own mappings. */
#define need_mapped_files()                                                                                            \
    do {                                                                                                               \
        skip_if_emulated();                                                                                            \
        if (geteuid() != 0) {                                                                                          \
            print_message("files of mappings can be opened by root alone\n");                                          \
            skip();                                                                                                    \
        }                                                                                                              \
    } while (0)

static double metric_value(const struct fixture *f, const char *name)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    usdt_providers_metrics(f->providers, set);
    processes_metrics(f->processes, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family family = metric_set_family(set, i);
        if (strcmp(family.name, name) == 0)
            return family.points[0].value;
    }
    fail_msg("there is no %s", name);
    return 0;
}

static void turn_until(struct fixture *f, const char *name, double value)
{
    for (int i = 0; i < 6000 && metric_value(f, name) != value; i++) {
        usdt_providers_turn(f->providers, 0);
        usleep(10000);
    }
    assert_true(metric_value(f, name) == value);
}

/* Runs turns until the scan is complete: a process counts once its first probes are found, which may be its C
 * library's, and the wanted provider may be found in a later turn. */
static void turn_until_scanned(struct fixture *f, size_t processes)
{
    turn_until(f, "sonde_usdt_scans_waiting", 0);
    assert_true(metric_value(f, "sonde_usdt_processes") == (double)processes);
}

static pid_t start_child(void)
{
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (1)
            pause();
    }
    assert_true(child > 0);
    return child;
}

static void end_child(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* With a time limit of zero, each turn reads one of the files that a process maps. */
static void test_scan_finishes_over_several_turns(void **state)
{
    struct fixture *f = *state;
    need_mapped_files();
    int turns = 0;
    usdt_providers_look(f->providers, (uint32_t)getpid());
    usdt_providers_turn(f->providers, 0);
    assert_int_equal(f->appeared, 0);
    while (metric_value(f, "sonde_usdt_scans_waiting") > 0 && turns++ < 1000)
        usdt_providers_turn(f->providers, 0);
    assert_in_range(turns, 1, 999);
    assert_int_equal(f->appeared, 1);
    assert_true(metric_value(f, "sonde_usdt_processes") == 1);
}

static void test_one_file_mapped_by_many(void **state)
{
    struct fixture *f = *state;
    pid_t children[5];
    need_mapped_files();
    for (size_t i = 0; i < array_size(children); i++) {
        children[i] = start_child();
        usdt_providers_look(f->providers, (uint32_t)children[i]);
    }
    turn_until_scanned(f, 5);
    assert_int_equal(f->appeared, 1);
    for (size_t i = 0; i < array_size(children); i++) {
        assert_int_equal(f->gone, 0);
        end_child(children[i]);
        usdt_providers_forget(f->providers, (uint32_t)children[i]);
        assert_true(metric_value(f, "sonde_usdt_processes") == (double)(4 - i));
    }
    assert_int_equal(f->gone, 1);
}

/* The table evicts it to stay within its bound; the process continues, and its exit is not reported. */
static void test_exit_of_evicted_process_is_noticed(void **state)
{
    struct fixture *f = *state;
    need_mapped_files();
    const pid_t child = start_child();
    usdt_providers_look(f->providers, (uint32_t)child);
    turn_until_scanned(f, 1);
    usdt_providers_forget(f->providers, (uint32_t)child);
    usdt_providers_turn(f->providers, 10000000);
    assert_int_equal(f->gone, 0);
    end_child(child);
    turn_until(f, "sonde_usdt_processes", 0);
    assert_int_equal(f->gone, 1);
}

/* It has exited, and has not been reaped. */
static void test_zombie_counts_as_exited(void **state)
{
    struct fixture *f = *state;
    siginfo_t info;
    need_mapped_files();
    const pid_t child = start_child();
    usdt_providers_look(f->providers, (uint32_t)child);
    turn_until_scanned(f, 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    usdt_providers_forget(f->providers, (uint32_t)child);
    assert_int_equal(f->gone, 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Lost records: all processes are scanned, and exited ones are noticed. */
static void test_lost_records_rescan_all_processes(void **state)
{
    struct fixture *f = *state;
    need_mapped_files();
    const pid_t child = start_child();
    usdt_providers_look(f->providers, (uint32_t)child);
    turn_until_scanned(f, 1);
    end_child(child);
    sonde_provider_unload(f->provider);
    usdt_providers_look_at_all(f->providers);
    for (int i = 0; i < 6000 && f->gone == 0; i++) {
        usdt_providers_turn(f->providers, 10000000);
        usleep(10000);
    }
    assert_int_equal(f->gone, 1);
}

/* The process continues without its provider: this is reported, because leave events of its threads may be missed. */
static void test_unmapped_provider_is_reported(void **state)
{
    struct fixture *f = *state;
    need_mapped_files();
    usdt_providers_look(f->providers, (uint32_t)getpid());
    turn_until(f, "sonde_usdt_scans_waiting", 0);
    assert_int_equal(f->appeared, 1);
    sonde_provider_unload(f->provider);
    bool is_read = false; /* at most once per second */
    for (int i = 0; i < 6000 && !is_read; i++) {
        usleep(10000);
        processes_at(f->processes, clock_monotonic_ns());
        is_read = processes_read_mappings(f->processes, processes_find(f->processes, (uint32_t)getpid(), 0));
    }
    assert_true(is_read);
    usdt_providers_look(f->providers, (uint32_t)getpid());
    turn_until(f, "sonde_usdt_scans_waiting", 0);
    assert_int_equal(f->gone, 1);
    assert_int_equal(f->unmapped, 1);
    assert_int_equal(f->unmapped_pid, getpid());
}

/* Of our provider. */
static int find_object(void)
{
    char path[64], name[64];
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t size = readlink(path, name, sizeof(name) - 1);
        if (size > 0 && (name[size] = '\0', strcmp(name, "/memfd:" PROVIDER " (deleted)") == 0))
            return fd;
    }
    fail_msg("there is no " PROVIDER);
    return -1;
}

/* One file, mapped any number of times: it is not queried for each mapping. */
static void test_many_mappings_of_one_file(void **state)
{
    struct fixture *f = *state;
    need_mapped_files();
    const int fd = find_object();
    for (int i = 0; i < 2000; i++)
        assert_ptr_not_equal(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), MAP_FAILED);
    usdt_providers_look(f->providers, (uint32_t)getpid());
    turn_until(f, "sonde_usdt_scans_waiting", 0); /* all of it is known from now on */
    assert_int_equal(f->appeared, 1);
    assert_true(metric_value(f, "sonde_usdt_left_out") >= 1);
    const double asked = metric_value(f, "sonde_self_files_requested");
    usdt_providers_look(f->providers, (uint32_t)getpid());
    turn_until(f, "sonde_usdt_scans_waiting", 0);
    assert_in_range(metric_value(f, "sonde_self_files_requested") - asked, 1, 100);
    assert_int_equal(f->appeared, 1);
    assert_int_equal(f->unmapped_pid, getpid()); /* it is unknown whether it still maps all files */
}

/* Refused because the table is full, and offered again when there is space, although nothing has changed in the
 * process. */
static void test_refused_file_is_offered_again(void **state)
{
    struct fixture *f = *state;
    need_mapped_files();
    f->has_no_room = true;
    const pid_t child = start_child();
    usdt_providers_look(f->providers, (uint32_t)child);
    turn_until_scanned(f, 1);
    assert_true(metric_value(f, "sonde_usdt_files_without_room") == 1);
    for (int round = 0; round < 2; round++) {
        const size_t before = f->refused;
        usdt_providers_retry_files(f->providers);
        for (int i = 0; i < 6000 && f->refused == before; i++) {
            usdt_providers_turn(f->providers, 0);
            usleep(10000);
        }
        assert_int_equal(f->refused, before + 1); /* once for each time that there may be space */
    }
    f->has_no_room = false;
    usdt_providers_retry_files(f->providers);
    turn_until(f, "sonde_usdt_files_without_room", 0);
    assert_int_equal(f->appeared, 1);
    end_child(child);
    usdt_providers_forget(f->providers, (uint32_t)child);
    assert_int_equal(f->gone, 1);
}

/* Our provider's object, but of another provider: same size, same headers, same build id. */
static void map_lookalike(void)
{
    char content[1 << 16];
    const ssize_t size = pread(find_object(), content, sizeof(content), 0);
    char *named = memmem(content, (size_t)size, PROVIDER, strlen(PROVIDER));
    assert_true(size < (ssize_t)sizeof(content) && named);
    for (; named; named = memmem(content, (size_t)(content + size - named), PROVIDER, strlen(PROVIDER)))
        named[0] = 'x';
    int copy = memfd_create(PROVIDER, 0);
    assert_int_equal(write(copy, content, (size_t)size), size);
    assert_ptr_not_equal(mmap(NULL, (size_t)size, PROT_READ | PROT_EXEC, MAP_PRIVATE, copy, 0), MAP_FAILED);
}

static pid_t start_lookalike(struct fixture *f)
{
    char byte;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        map_lookalike();
        sonde_provider_unload(f->provider);
        if (write(ready[1], "", 1) == 1)
            while (1)
                pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void test_lookalike_does_not_hide_the_provider(void **state)
{
    struct fixture *f = *state;
    need_mapped_files();
    const pid_t child = start_lookalike(f);
    usdt_providers_look(f->providers, (uint32_t)child);
    turn_until_scanned(f, 1); /* it has probes */
    assert_int_equal(f->appeared, 0);
    usdt_providers_look(f->providers, (uint32_t)getpid());
    turn_until(f, "sonde_usdt_scans_waiting", 0);
    assert_int_equal(f->appeared, 1);
    end_child(child);
}

/* Descriptors run out: it is found once they are available again. */
static void test_unreadable_file_is_found_later(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    need_mapped_files();
    assert_non_null(processes_find(f->processes, (uint32_t)getpid(), 0));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}), 0);
    usdt_providers_look(f->providers, (uint32_t)getpid());
    usdt_providers_turn(f->providers, 1000000000);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(f->appeared, 0);
    assert_true(metric_value(f, "sonde_usdt_scans_unread") == 1);
    for (int i = 0; i < 6000 && f->appeared == 0; i++) {
        usdt_providers_turn(f->providers, 10000000);
        usleep(10000);
    }
    assert_int_equal(f->appeared, 1);
    assert_true(metric_value(f, "sonde_usdt_scans_given_up") == 0);
}

#define with_fixture(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static size_t inspected;

static bool is_this_program(const char *path)
{
    return strstr(path, program_invocation_short_name) != NULL;
}

static bool is_with_symbols(void *context, const struct elf_file *f)
{
    (void)context;
    inspected++;
    return elf_section(f, ".symtab") != NULL;
}

static int on_selected(void *context, const struct usdt_provider_file *file, void **ret)
{
    struct fixture *f = context;
    assert_true(file->fd >= 0 && !file->probes);
    f->appeared++;
    *ret = f;
    return 0;
}

/* This program, and none of its libraries. */
static void test_files_are_selected_by_path_and_contents(void **state)
{
    struct fixture *f = *state;
    need_mapped_files();
    const struct usdt_providers_options options = {.processes = f->processes,
                                                   .is_candidate = is_this_program,
                                                   .is_wanted = is_with_symbols,
                                                   .context = f,
                                                   .appeared = on_selected,
                                                   .gone = on_gone,
                                                   .unmapped = unmapped};
    usdt_providers_free(f->providers);
    assert_int_equal(usdt_providers_new(&options, &f->providers), 0);
    usdt_providers_look(f->providers, (uint32_t)getpid());
    usdt_providers_turn(f->providers, UINT64_C(10000000000));
    assert_int_equal(f->appeared, 1);
    assert_int_equal(inspected, 1);
    assert_true(usdt_providers_may_map(f->providers, (uint32_t)getpid(), f));
    assert_false(usdt_providers_may_map(f->providers, (uint32_t)getpid(), &inspected));
    assert_true(usdt_providers_may_map(f->providers, (uint32_t)getppid(), f)); /* it was not scanned */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(test_scan_finishes_over_several_turns),
        with_fixture(test_one_file_mapped_by_many),
        with_fixture(test_exit_of_evicted_process_is_noticed),
        with_fixture(test_zombie_counts_as_exited),
        with_fixture(test_lost_records_rescan_all_processes),
        with_fixture(test_unmapped_provider_is_reported),
        with_fixture(test_lookalike_does_not_hide_the_provider),
        with_fixture(test_refused_file_is_offered_again),
        with_fixture(test_unreadable_file_is_found_later),
        with_fixture(test_files_are_selected_by_path_and_contents),
        with_fixture(test_many_mappings_of_one_file), /* the last one: the mappings stay */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
