/* Providers whose objects are files in a directory, and every reason to fall back to memory. */
#include <sonde/probe.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../emulated.h"
#include "../mappings.h"
#include "warnings.h"

static char directory[] = "/tmp/test-probe-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static int count_files(char path[512])
{
    int count = 0;
    DIR *listing = opendir(directory);
    for (struct dirent *entry; (entry = readdir(listing));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(path, 512, "%s/%s", directory, entry->d_name);
            count++;
        }
    closedir(listing);
    return count;
}

/* The only file in it; "" unless there is exactly one. */
static const char *only_file(void)
{
    static char path[512];
    return count_files(path) == 1 ? path : "";
}

static struct sonde_provider *load_in_directory(const char *where, struct warnings *warnings)
{
    struct sonde_probe *probe;
    struct sonde_provider *provider = new_provider("filed", warnings);
    assert_int_equal(sonde_provider_set_directory(provider, where), 0);
    assert_int_equal(sonde_probe_add(provider, "probe", "str text", &probe), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    return provider;
}

static void test_one_file_for_all_processes(void **state)
{
    (void)state;
    struct warnings warnings;
    struct sonde_provider *first = load_in_directory(directory, &warnings),
                          *second = load_in_directory(directory, &warnings);
    const char *path = only_file();
    assert_string_not_equal(path, "");
    assert_int_equal(count_mappings(path), 4);
    assert_int_equal(count_mappings("/memfd:filed"), 0);
    sonde_provider_free(first);
    sonde_provider_free(second);
    assert_int_equal(warnings.count, 0);
    assert_int_equal(access(path, F_OK), 0); /* it stays */
    assert_int_equal(unlink(path), 0);
}

/* A file that another user could have created or could change is not executed. */
static void test_untrusted_files_are_not_used(void **state)
{
    (void)state;
    struct warnings warnings;
    sonde_provider_free(load_in_directory(directory, &warnings));
    char path[512], good[16384];
    snprintf(path, sizeof(path), "%s", only_file());
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ssize_t size = read(fd, good, sizeof(good));
    assert_true(size > 0 && size < (ssize_t)sizeof(good));
    for (int kind = 0; kind < 6; kind++) {
        assert_int_equal(ftruncate(fd, size), 0);
        assert_int_equal(pwrite(fd, good, (size_t)size, 0), size);
        assert_int_equal(fchmod(fd, 0644), 0);
        if (kind == 0)
            assert_int_equal(fchmod(fd, 0664), 0);
        else if (kind == 1)
            assert_int_equal(fchmod(fd, 0646), 0);
        else if (kind == 2)
            assert_int_equal(ftruncate(fd, size - 1), 0);
        else if (kind == 3)
            assert_int_equal(pwrite(fd, "", 1, size), 1);
        else if (kind == 4)
            assert_int_equal(pwrite(fd, "\xcc", 1, 0x180), 1);
        else
            assert_int_equal(unlink(path) || symlink("/bin/true", path), 0);
        sonde_provider_free(load_in_directory(directory, &warnings));
        assert_int_equal(warnings.count, 1);
        assert_non_null(strstr(warnings.last, "in memory instead"));
    }
    close(fd);
    assert_int_equal(unlink(path), 0);
}

static void test_unusable_directories(void **state)
{
    (void)state;
    struct warnings warnings;
    char too_long[5000];
    struct sonde_provider *provider;
    memset(too_long, 'a', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    for (int i = 0; i < 3; i++) {
        const char *const where[] = {"/nowhere/at/all", "/dev/null", "/proc"};
        provider = load_in_directory(where[i], &warnings);
        assert_int_equal(warnings.count, 1);
        assert_int_equal(count_mappings("/memfd:filed"), 2);
        sonde_provider_free(provider);
    }
    provider = new_provider("filed", &warnings);
    assert_int_equal(sonde_provider_set_directory(provider, too_long), -ENAMETOOLONG);
    too_long[4090] = '\0';
    assert_int_equal(sonde_provider_set_directory(provider, too_long), 0);
    assert_int_equal(sonde_provider_set_directory(provider, NULL), 0);
    sonde_provider_free(provider);
}

static int load_counted(const char *where, struct warnings *warnings, struct sonde_provider **ret_provider)
{
    struct sonde_probe *probe;
    *warnings = (struct warnings){0};
    if (sonde_provider_new("filed", ret_provider) < 0)
        return -1;
    sonde_provider_on_warning(*ret_provider, keep_warning, warnings);
    return sonde_provider_set_directory(*ret_provider, where) < 0 ||
                   sonde_probe_add(*ret_provider, "probe", "str text", &probe) < 0
               ? -1
               : sonde_provider_load(*ret_provider);
}

static int is_warned(const struct warnings *warnings)
{
    return warnings->count == 1 && strstr(warnings->last, "(it is mounted noexec); in memory instead");
}

/* 0: success; 99: nothing can be mounted here. */
static int use_noexec(void)
{
    struct warnings first_warnings, warnings;
    struct sonde_provider *first, *second, *third;
    char path[512];
    if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return 99;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("none", directory, "tmpfs", 0, NULL) < 0)
        return 99;
    if (load_counted(directory, &first_warnings, &first) < 0 || first_warnings.count != 0 ||
        count_mappings("/memfd:filed") != 0)
        return 1;
    if (mount("none", directory, "tmpfs", MS_REMOUNT | MS_NOEXEC, NULL) < 0)
        return 99;
    /* With a file present, new and again. */
    if (load_counted(directory, &warnings, &second) < 0 || !is_warned(&warnings) || count_mappings("/memfd:filed") != 2)
        return 2;
    for (int i = 0; i < 2; i++) {
        sonde_provider_unload(first);
        if (sonde_provider_load(first) < 0 || !is_warned(&first_warnings) || count_mappings("/memfd:filed") != 4)
            return 3;
    }
    if (count_mappings(only_file()) != 0 || unlink(only_file()) < 0)
        return 4;
    /* And no file is created that could not be attached to. */
    if (load_counted(directory, &warnings, &third) < 0 || !is_warned(&warnings) ||
        count_mappings("/memfd:filed") != 6 || count_files(path) != 0)
        return 5;
    sonde_provider_free(first);
    sonde_provider_free(second);
    sonde_provider_free(third);
    return count_mappings("filed") == 0 ? 0 : 6;
}

static void test_noexec_directory(void **state)
{
    (void)state;
    if (is_emulated()) {
        print_message("runs under qemu-user, which executes nothing of the files itself\n");
        skip();
    }
    pid_t child = fork();
    if (child == 0)
        _exit(use_noexec());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
        print_message("nothing can be mounted here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_file_for_all_processes),
        cmocka_unit_test(test_untrusted_files_are_not_used),
        cmocka_unit_test(test_unusable_directories),
        cmocka_unit_test(test_noexec_directory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
