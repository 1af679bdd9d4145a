/* Providers and probes, as far as they can be tested without a kernel: errors, semaphores, leftovers, threads,
 * processes, and every failure of loading. Arguments seen by consumers: tests/bpf/test_usdt.c. */
#include <sonde/probe.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../allocations.h"
#include "../../emulated.h"
#include "../../forbid.h"
#include "../mappings.h"
#include "warnings.h"

/* Changes the semaphore as an attaching or detaching consumer does. */
static void attach(struct sonde_probe *probe, int by)
{
    volatile uint16_t *semaphore = (volatile uint16_t *)(uintptr_t)probe->semaphore;
    __atomic_add_fetch(semaphore, (uint16_t)by, __ATOMIC_RELAXED);
}

static int count_descriptors(void)
{
    int count = 0;
    DIR *listing = opendir("/proc/self/fd");
    while (readdir(listing))
        count++;
    closedir(listing);
    return count;
}

static void test_errors_are_returned(void **state)
{
    (void)state;
    struct warnings warnings;
    struct sonde_provider *provider = (void *)1;
    struct sonde_probe *probe, *untouched = (void *)1;
    assert_int_equal(sonde_provider_new("a-b", &provider), -EINVAL);
    assert_int_equal(sonde_provider_new("", &provider), -EINVAL);
    assert_ptr_equal(provider, (void *)1);
    provider = new_provider("errors", &warnings);
    assert_int_equal(sonde_probe_add(provider, "a:\n", "", &untouched), -EINVAL);
    assert_string_equal(warnings.last,
                        "sonde: probes of errors: \"a:?\" is not added: names are C identifiers of up to 63 bytes");
    assert_int_equal(sonde_probe_add(provider, "a", "str model, u33 length", &untouched), -EINVAL);
    assert_string_equal(
        warnings.last,
        "sonde: probes of errors: a is not added: its arguments are wrong at \"u33 length\" (TYPE NAME, ..., up to 12, each name once)");
    assert_int_equal(
        sonde_probe_add(provider, "a", "u8 a,u8 b,u8 c,u8 d,u8 e,u8 f,u8 g,u8 h,u8 i,u8 j,u8 k,u8 l,u8 m", &untouched),
        -E2BIG);
    assert_int_equal(sonde_probe_add(provider, "a", NULL, &probe), 0);
    assert_int_equal(sonde_probe_add(provider, "a", NULL, &untouched), -EEXIST);
    assert_string_equal(warnings.last, "sonde: probes of errors: a is not added: File exists");
    for (int i = 1; i < SONDE_PROBES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof(name), "p%d", i);
        assert_int_equal(sonde_probe_add(provider, name, NULL, &probe), 0);
    }
    assert_int_equal(sonde_probe_add(provider, "one_more", NULL, &untouched), -ENOSPC);
    assert_ptr_equal(untouched, (void *)1);
    assert_int_equal(sonde_provider_load(provider), 0);
    sonde_provider_free(provider);
    sonde_provider_free(NULL);
}

static int computed;

static int compute(void)
{
    return ++computed;
}

static void test_arguments_are_evaluated_only_when_attached(void **state)
{
    (void)state;
    struct warnings warnings;
    struct sonde_probe *probe;
    struct sonde_provider *provider = new_provider("lazy", &warnings);
    assert_int_equal(sonde_probe_add(provider, "probe", "i32 computed", &probe), 0);
    computed = 0;
    sonde_probe_fire(probe, compute());
    assert_int_equal(sonde_provider_load(provider), 0);
    sonde_probe_fire(probe, compute());
    SONDE_PROBE(lazy, at_compile_time, compute());
    assert_int_equal(computed, 0);
    attach(probe, 1);
    assert_true(sonde_probe_enabled(probe));
    sonde_probe_fire(probe, compute());
    sonde_probe_fire(probe, compute(), compute(), 3, 4, 5, 6, 7, 8, 9, 10, 11, 12); /* more than declared */
    sonde_probe_fire(probe);                                                        /* and fewer */
    assert_int_equal(computed, 3);
    attach(probe, -1);
    assert_false(sonde_probe_enabled(probe));
    sonde_probe_fire(probe, compute());
    assert_int_equal(computed, 3);
    assert_int_equal(warnings.count, 0);
    sonde_provider_free(provider);
}

static void test_unload_releases_everything(void **state)
{
    (void)state;
    struct warnings warnings;
    struct sonde_probe *early, *late;
    int descriptors = count_descriptors();
    struct sonde_provider *provider = new_provider("left_behind", &warnings);
    assert_int_equal(sonde_provider_load(provider), 0); /* nothing to load is no error */
    assert_int_equal(sonde_probe_add(provider, "early", "", &early), 0);
    assert_int_equal(count_mappings("left_behind"), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    const volatile uint16_t *semaphore = early->semaphore;
    assert_int_equal(count_mappings("/memfd:left_behind"), 2);
    assert_int_equal(sonde_provider_load(provider), 0); /* loading a loaded provider changes nothing */
    assert_int_equal(sonde_probe_add(provider, "late", "str text", &late), 0);
    assert_int_equal(count_descriptors(), descriptors + 1);
    assert_int_equal(sonde_provider_load(provider), 0);
    assert_int_equal(count_mappings("/memfd:left_behind"), 4);
    assert_int_equal(count_descriptors(), descriptors + 2);
    for (int i = 0; i < 100; i++) {
        attach(early, 1);
        sonde_provider_unload(provider);
        assert_false(sonde_probe_enabled(early));
        assert_int_equal(count_mappings("left_behind"), 0);
        assert_int_equal(count_descriptors(), descriptors);
        sonde_provider_unload(provider);
        sonde_probe_fire_values(early, 0, NULL);
        assert_int_equal(sonde_provider_load(provider), 0);
        assert_ptr_equal(early->semaphore, semaphore); /* the same place */
        assert_false(sonde_probe_enabled(early));
    }
    sonde_provider_free(provider);
    assert_int_equal(count_mappings("left_behind"), 0);
    assert_int_equal(count_descriptors(), descriptors);
}

/* A daemon closes all descriptors; the number is then reused by its new owner and must not be closed. */
static void test_reused_descriptor_is_not_closed(void **state)
{
    (void)state;
    struct warnings warnings;
    struct sonde_probe *probe;
    struct sonde_provider *provider = new_provider("closed", &warnings);
    int number = open("/dev/null", O_RDONLY);
    close(number);
    assert_int_equal(sonde_probe_add(provider, "probe", "", &probe), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    close(number);
    assert_int_equal(open("/dev/null", O_RDONLY), number);
    sonde_provider_free(provider);
    assert_int_not_equal(fcntl(number, F_GETFD), -1);
    close(number);
}

/* --- threads
 * ---------------------------------------------------------------------------------------------------------------------
 */

static struct sonde_probe *shared_probe;
static int threads_end;

static void *fire_until_the_end(void *unused)
{
    while (!__atomic_load_n(&threads_end, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 100; i++)
            sonde_probe_fire(shared_probe, i, "text", 1.5);
        sonde_probe_fire_values(shared_probe, 0, NULL); /* as a thread that checked the semaphore before another thread
                                                         * unloaded */
        sched_yield();
    }
    return unused;
}

static void test_concurrent_load_fire_and_unload(void **state)
{
    (void)state;
    struct warnings warnings;
    pthread_t ids[64];
    struct sonde_provider *provider = new_provider("threads", &warnings);
    threads_end = 0;
    assert_int_equal(sonde_probe_add(provider, "probe", "i32 i, str text, f64 x", &shared_probe), 0);
    for (int i = 0; i < 64; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, fire_until_the_end, NULL), 0);
    for (int i = 0; i < 60; i++) {
        struct sonde_probe *another;
        char name[16];
        snprintf(name, sizeof(name), "p%d", i);
        assert_int_equal(sonde_provider_load(provider), 0);
        attach(shared_probe, 1);
        if (i % 10 == 0)
            assert_int_equal(sonde_probe_add(provider, name, NULL, &another), 0);
        if (i % 3 == 0)
            sched_yield();
        sonde_provider_unload(provider);
    }
    __atomic_store_n(&threads_end, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 64; i++)
        pthread_join(ids[i], NULL);
    sonde_provider_free(provider);
}

static void *load_and_unload_until_the_end(void *provider)
{
    while (!__atomic_load_n(&threads_end, __ATOMIC_RELAXED)) {
        sonde_provider_load(provider);
        sonde_provider_unload(provider);
    }
    return NULL;
}

/* Children forked while another thread holds the provider's lock, or is loading. */
static void test_fork_with_concurrent_threads(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__ /* test_threads.c */
    print_message("AddressSanitizer's malloc cannot be used in a child that was forked while others were in it\n");
    skip();
#endif
    struct warnings warnings;
    pthread_t id;
    struct sonde_provider *provider = new_provider("forks", &warnings);
    threads_end = 0;
    assert_int_equal(sonde_probe_add(provider, "probe", "i32 i", &shared_probe), 0);
    assert_int_equal(pthread_create(&id, NULL, load_and_unload_until_the_end, provider), 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct sonde_probe *another;
            alarm(60);
            sonde_probe_fire(shared_probe, 1);
            if (sonde_probe_add(provider, "another", NULL, &another) < 0 || sonde_provider_load(provider) < 0)
                _exit(1);
            attach(another, 1);
            sonde_probe_fire(another);
            sonde_provider_unload(provider);
            sonde_provider_free(provider);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    __atomic_store_n(&threads_end, 1, __ATOMIC_RELAXED);
    pthread_join(id, NULL);
    sonde_provider_free(provider);
}

static void test_child_reloads_after_fork(void **state)
{
    (void)state;
    if (is_emulated()) {
        print_message("runs under qemu-user, which wipes nothing on fork\n");
        skip();
    }
    struct warnings warnings;
    struct sonde_probe *probe;
    struct sonde_provider *provider = new_provider("after_fork", &warnings);
    assert_int_equal(sonde_probe_add(provider, "probe", "i32 i", &probe), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    attach(probe, 1); /* no real consumer, so that the child's first firing detects it */
    pid_t child = fork();
    if (child == 0) {
        sonde_probe_fire(probe, 1);
        _exit(sonde_probe_enabled(probe));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(sonde_probe_enabled(probe));
    sonde_provider_free(provider);
}

/* --- loading failures ----------------------------------------------------------------------------- */

/* Loads where loading fails. Returns 0 on the expected result: the error, one warning, and a provider that stays
 * usable but silent. */
static int use_silent(int error, const char *directory)
{
    struct warnings warnings = {0};
    struct sonde_provider *provider;
    struct sonde_probe *probe, *late;
    if (sonde_provider_new("refused", &provider) < 0)
        return 1;
    sonde_provider_on_warning(provider, keep_warning, &warnings);
    if (sonde_provider_set_directory(provider, directory) < 0 ||
        sonde_probe_add(provider, "probe", "i32 i", &probe) < 0)
        return 2;
    for (int i = 0; i < 3; i++) {
        if (sonde_provider_load(provider) != error)
            return 3;
        sonde_probe_fire(probe, compute());
        sonde_probe_fire_values(probe, 0, NULL);
        if (sonde_probe_enabled(probe) || warnings.count != 1)
            return 4;
        sonde_provider_unload(provider);
    }
    if (sonde_probe_add(provider, "late", "", &late) < 0 || sonde_provider_load(provider) != error ||
        !strstr(warnings.last, "sonde: probes of refused:"))
        return 5;
    sonde_provider_free(provider);
    return 0;
}

static void test_load_without_memfd(void **state)
{
    (void)state;
    if (is_emulated()) {
        print_message("runs under qemu-user: filters are the emulator's\n");
        skip();
    }
    const unsigned errors_said[] = {EPERM, ENOSYS, EMFILE, ENOMEM};
    for (size_t i = 0; i < sizeof(errors_said) / sizeof(*errors_said); i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(forbid(SYS_memfd_create, errors_said[i]) ? use_silent(-(int)errors_said[i], NULL) : 9);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WEXITSTATUS(status) == 9) {
            print_message("no seccomp filter can be set\n");
            skip();
        }
        assert_int_equal(status, 0);
    }
}

/* Each allocation in a provider's lifetime fails once. */
static void test_load_with_failing_allocations(void **state)
{
    (void)state;
    int failed = 1;
    for (size_t n = 0; failed; n++) {
        struct warnings warnings = {0};
        struct sonde_provider *provider = NULL;
        struct sonde_probe *probe = NULL;
        allocations_fail_at(n);
        int r = sonde_provider_new("memory", &provider);
        if (r == 0) {
            sonde_provider_on_warning(provider, keep_warning, &warnings);
            r = sonde_probe_add(provider, "probe", "i32 i", &probe);
        }
        if (r == 0)
            r = sonde_provider_load(provider);
        failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        assert_int_equal(r, failed ? -ENOMEM : 0);
        if (probe) {
            assert_int_equal(warnings.count, failed);
            sonde_probe_fire_values(probe, 0, NULL);
            assert_int_equal(sonde_provider_load(provider), 0); /* a failed load may be retried */
            attach(probe, 1);
            sonde_probe_fire(probe, 1);
        }
        sonde_provider_free(provider);
    }
}

static void test_load_without_descriptors(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
        _exit(use_silent(-EMFILE, NULL));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Only the form of the site depends on this; libsonde must not call a system call that a filter may not know. */
static void test_load_under_a_seccomp_filter(void **state)
{
    (void)state;
    if (is_emulated()) {
        print_message("runs under qemu-user: filters are the emulator's\n");
        skip();
    }
    pid_t child = fork();
    if (child == 0) {
        struct sonde_provider *provider;
        struct sonde_probe *probe;
        _exit(!forbid(SYS_getppid, EPERM) || sonde_provider_new("filtered", &provider) < 0 ||
              sonde_probe_add(provider, "p", "", &probe) < 0 || sonde_provider_load(provider) < 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A filter that kills cannot be probed, so the user disables probes. The test also shows that the filter would kill. */
static void test_sonde_probes_off(void **state)
{
    (void)state;
    if (is_emulated()) {
        print_message("runs under qemu-user: filters are the emulator's\n");
        skip();
    }
    for (int off = 0; off < 2; off++) {
        pid_t child = fork();
        if (child == 0) {
            struct warnings warnings = {0};
            struct sonde_provider *provider;
            struct sonde_probe *probe;
            setenv("SONDE_PROBES", off ? "off" : "on", 1);
            if (sonde_provider_new("off", &provider) < 0 || sonde_probe_add(provider, "p", "", &probe) < 0 ||
                !kill_for_new_code())
                _exit(9);
            sonde_provider_on_warning(provider, keep_warning, &warnings);
            int r = sonde_provider_load(provider);
            sonde_probe_fire(probe);
            _exit(r != -ECANCELED || warnings.count != 0 || sonde_probe_enabled(probe));
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 9) {
            print_message("no seccomp filter can be set\n");
            skip();
        }
        assert_int_equal(off ? status : WTERMSIG(status), off ? 0 : SIGSYS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_returned),
        cmocka_unit_test(test_arguments_are_evaluated_only_when_attached),
        cmocka_unit_test(test_unload_releases_everything),
        cmocka_unit_test(test_reused_descriptor_is_not_closed),
        cmocka_unit_test(test_concurrent_load_fire_and_unload),
        cmocka_unit_test(test_fork_with_concurrent_threads),
        cmocka_unit_test(test_child_reloads_after_fork),
        cmocka_unit_test(test_load_without_memfd),
        cmocka_unit_test(test_load_with_failing_allocations),
        cmocka_unit_test(test_load_without_descriptors),
        cmocka_unit_test(test_load_under_a_seccomp_filter),
        cmocka_unit_test(test_sonde_probes_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
