/* libsonde's probes as libbpf sees them: attached for one process and for all, by descriptor and by file, with every
 * kind of argument compared with the fired values. Nothing stays attached after the consumer has gone. */
#include <sonde/probe.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "usdt.h"
#include "usdt.skel.h"

struct watcher {
    struct usdt_bpf *program;
    struct bpf_link *link;
    int map;
};

static int silent(enum libbpf_print_level level, const char *format, va_list arguments)
{
    return level == LIBBPF_WARN ? vfprintf(stderr, format, arguments) : 0;
}

static struct watcher attach(int pid, const char *path, const char *provider, const char *probe)
{
    struct watcher w = {.program = usdt_bpf__open_and_load()};
    assert_non_null(w.program);
    w.link = bpf_program__attach_usdt(w.program->progs.fired, pid, path, provider, probe, NULL);
    assert_non_null(w.link);
    w.map = bpf_map__fd(w.program->maps.firings);
    return w;
}

static void detach(struct watcher *w)
{
    bpf_link__destroy(w->link);
    usdt_bpf__destroy(w->program);
}

/* Without cookies (kernels before 5.15) libbpf distinguishes probes by address, which it takes from files with a name
 * in /proc/PID/maps, of one process. */
static int has_cookies(void)
{
    return libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_get_attach_cookie, NULL) == 1;
}

static int skip_without_cookies(void)
{
    if (has_cookies())
        return 0;
    print_message("libbpf finds no probes in memory on a kernel without BPF cookies\n");
    return 1;
}

static struct usdt_firing last(const struct watcher *w)
{
    struct usdt_firing firing;
    unsigned zero = 0;
    assert_int_equal(bpf_map_lookup_elem(w->map, &zero, &firing), 0);
    return firing;
}

/* The descriptor path of a provider's object in memory, by the name that /proc shows; the newest of several. */
static const char *path_of(const char *provider)
{
    static char path[64];
    char link[128], wanted[96];
    int found = -1;
    snprintf(wanted, sizeof(wanted), "/memfd:%s (deleted)", provider);
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, link, sizeof(link) - 1);
        if (length > 0 && (link[length] = '\0', strcmp(link, wanted) == 0))
            found = fd;
    }
    assert_true(found >= 0);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), found);
    return path;
}

static void only_file(const char *directory, char *out, size_t size)
{
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        if (entry->d_name[0] != '.')
            snprintf(out, size, "%s/%s", directory, entry->d_name);
    closedir(listing);
}

static uint64_t bits(double x)
{
    return sonde_value_of_double_(x).bits;
}

static void test_arguments_of_every_type(void **state)
{
    (void)state;
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    const char *text = "a string";
    char directory[] = "/tmp/test-usdt-XXXXXX", path[512] = "";
    assert_non_null(mkdtemp(directory));
    assert_int_equal(sonde_provider_new("test_kinds", &provider), 0);
    assert_int_equal(sonde_provider_set_directory(provider, has_cookies() ? NULL : directory), 0);
    assert_int_equal(sonde_probe_add(provider, "all",
                                     "i8 a, u8 b, i16 c, u16 d, i32 e, u32 f, i64 g, u64 h, ptr i, str j, f64 k, i8 l",
                                     &probe),
                     0);
    assert_int_equal(sonde_provider_load(provider), 0);
    assert_false(sonde_probe_enabled(probe));
    only_file(directory, path, sizeof(path));
    struct watcher w = attach(getpid(), has_cookies() ? path_of("test_kinds") : path, "test_kinds", "all");
    assert_true(sonde_probe_enabled(probe));

    sonde_probe_fire(probe, INT8_MIN, (unsigned char)UINT8_MAX, (short)INT16_MIN, (unsigned short)UINT16_MAX, INT32_MIN,
                     UINT32_MAX, INT64_MIN, UINT64_MAX, (void *)&w, text, -DBL_MAX, (signed char)-7);
    struct usdt_firing got = last(&w);
    const uint64_t least[] = {(uint64_t)INT8_MIN,  UINT8_MAX,       (uint64_t)INT16_MIN, UINT16_MAX,
                              (uint64_t)INT32_MIN, UINT32_MAX,      (uint64_t)INT64_MIN, UINT64_MAX,
                              (uintptr_t)&w,       (uintptr_t)text, bits(-DBL_MAX),      (uint64_t)-7};
    assert_int_equal(got.count, 1);
    assert_int_equal(got.argument_count, 12);
    assert_memory_equal(got.values, least, sizeof(least));

    sonde_probe_fire(probe, INT8_MAX, 0, INT16_MAX, 0, INT32_MAX, 0, INT64_MAX, 0, NULL, "", 0.1f, 'x');
    const uint64_t most[] = {INT8_MAX, 0, INT16_MAX, 0, INT32_MAX, 0, INT64_MAX, 0, 0};
    got = last(&w);
    assert_int_equal(got.count, 2);
    assert_memory_equal(got.values, most, sizeof(most));
    assert_int_equal(got.values[10], bits((double)0.1f));
    assert_int_equal(got.values[11], 'x');

    /* Converted to the declared types; missing ones are 0. */
    sonde_probe_fire(probe, 1.9, 2.0f, -3.5, 4ull, 5, 6, 1e300, -1e300, 9ul, NULL, -11);
    const uint64_t converted[] = {1, 2, (uint64_t)-3, 4, 5, 6, INT64_MAX, 0, 9, 0, bits(-11), 0};
    got = last(&w);
    assert_int_equal(got.count, 3);
    assert_memory_equal(got.values, converted, sizeof(converted));

    detach(&w);
    assert_false(sonde_probe_enabled(probe));
    sonde_provider_free(provider);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

/* The maximum number of arguments, one after the other, in registers and on the stack. */
static void test_arguments_of_every_count(void **state)
{
    (void)state;
    if (skip_without_cookies())
        skip();
    struct sonde_provider *provider;
    struct sonde_probe *probes[SONDE_PROBE_ARGUMENTS_MAX + 1];
    assert_int_equal(sonde_provider_new("test_counts", &provider), 0);
    for (int count = 0; count <= SONDE_PROBE_ARGUMENTS_MAX; count++) {
        char name[16], arguments[256] = "";
        snprintf(name, sizeof(name), "of_%d", count);
        for (int i = 0; i < count; i++)
            snprintf(arguments + strlen(arguments), sizeof(arguments) - strlen(arguments), "%si64 a%d", i ? ", " : "",
                     i);
        assert_int_equal(sonde_probe_add(provider, name, arguments, &probes[count]), 0);
    }
    assert_int_equal(sonde_provider_load(provider), 0);
    for (int count = 0; count <= SONDE_PROBE_ARGUMENTS_MAX; count++) {
        char name[16];
        snprintf(name, sizeof(name), "of_%d", count);
        struct watcher w = attach(getpid(), path_of("test_counts"), "test_counts", name);
        for (int other = 0; other <= SONDE_PROBE_ARGUMENTS_MAX; other++)
            assert_int_equal(sonde_probe_enabled(probes[other]), other == count);
        for (int i = 0; i < 3; i++) /* through a breakpoint first, then through what the kernel replaced it with */
            sonde_probe_fire(probes[count], -1ll, -2ll, -3ll, -4ll, -5ll, -6ll, -7ll, -8ll, -9ll, -10ll, -11ll, -12ll);
        struct usdt_firing got = last(&w);
        assert_int_equal(got.count, 3);
        assert_int_equal(got.argument_count, count);
        for (int i = 0; i < SONDE_PROBE_ARGUMENTS_MAX; i++)
            assert_int_equal((int64_t)got.values[i], i < count ? -1 - i : 0);
        detach(&w);
    }
    sonde_provider_free(provider);
}

static void static_probe(int first)
{
    SONDE_PROBE(test_static, all, first, (signed char)-1, (unsigned char)200, (short)-300, (unsigned short)60000,
                4000000000u, -5l, ~0ull, (void *)16, "text", 2.5, (_Bool)1);
    SONDE_PROBE(test_static, none);
}

static void test_static_probes(void **state)
{
    (void)state;
    struct watcher w = attach(getpid(), "/proc/self/exe", "test_static", "all");
    assert_true(SONDE_PROBE_ENABLED(test_static, all));
    assert_false(SONDE_PROBE_ENABLED(test_static, none));
    static_probe(-42);
    struct usdt_firing got = last(&w);
    const uint64_t expected[] = {(uint64_t)-42, (uint64_t)-1, 200, (uint64_t)-300, 60000, 4000000000,
                                 (uint64_t)-5,  UINT64_MAX,   16};
    assert_int_equal(got.count, 1);
    assert_int_equal(got.argument_count, 12);
    assert_memory_equal(got.values, expected, sizeof(expected));
    assert_string_equal((const char *)(uintptr_t)got.values[9], "text");
    assert_int_equal(got.values[10], bits(2.5));
    assert_int_equal(got.values[11], 1);
    detach(&w);
    assert_false(SONDE_PROBE_ENABLED(test_static, all));
    w = attach(getpid(), "/proc/self/exe", "test_static", "none");
    static_probe(0);
    assert_int_equal(last(&w).count, 1);
    assert_int_equal(last(&w).argument_count, 0);
    detach(&w);
}

/* In a child: closes its copies of the consumer's descriptors, which would keep the probe attached after the parent
 * has detached. */
static void close_consumer(void)
{
    char path[64], link[128];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, link, sizeof(link) - 1);
        if (length > 0 && (link[length] = '\0', strncmp(link, "anon_inode:", 11) == 0))
            close(fd);
    }
}

static void wait_for_good_end(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A consumer attached to the file without a PID covers all processes that map it, including a child that is forked
 * after the kernel has optimised the probe. */
static void test_attach_to_all_processes_survives_fork(void **state)
{
    (void)state;
    if (skip_without_cookies())
        skip();
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    assert_int_equal(sonde_provider_new("test_fork", &provider), 0);
    assert_int_equal(sonde_probe_add(provider, "forked", "i32 number", &probe), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    struct watcher w = attach(-1, path_of("test_fork"), "test_fork", "forked");
    for (int i = 0; i < 5; i++)
        sonde_probe_fire(probe, i);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 10; i++)
            sonde_probe_fire(probe, i);
        pid_t grandchild = fork();
        for (int i = 0; i < 10; i++)
            sonde_probe_fire(probe, i);
        int status = 0;
        sonde_provider_free(provider);
        _exit(grandchild != 0 && (waitpid(grandchild, &status, 0) != grandchild || status != 0));
    }
    wait_for_good_end(child);
    assert_int_equal(last(&w).count, 5 + 10 + 2 * 10);
    assert_int_equal(last(&w).values[0], 9);
    sonde_probe_fire(probe, 77);
    assert_int_equal(last(&w).count, 36);
    assert_int_equal(last(&w).process, getpid());
    detach(&w);
    assert_false(sonde_probe_enabled(probe));
    sonde_provider_free(provider);
}

/* A child forked while a consumer is attached to the parent alone does not fire, and is not left enabled after the
 * consumer detaches: with the descriptor of the object, or with all descriptors closed, as daemons do. */
static void test_child_of_an_attached_process_does_not_fire(void **state)
{
    (void)state;
    if (skip_without_cookies())
        skip();
    for (int all_closed = 0; all_closed < 2; all_closed++) {
        struct sonde_provider *provider;
        struct sonde_probe *probe;
        int gone[2], ready[2];
        char byte = 0;
        assert_int_equal(pipe(gone), 0);
        assert_int_equal(pipe(ready), 0);
        assert_int_equal(sonde_provider_new("test_child", &provider), 0);
        assert_int_equal(sonde_probe_add(provider, "forked", NULL, &probe), 0);
        assert_int_equal(sonde_provider_load(provider), 0);
        struct watcher w = attach(getpid(), path_of("test_child"), "test_child", "forked");
        for (int i = 0; i < 3; i++)
            sonde_probe_fire(probe);
        pid_t child = fork();
        if (child == 0) {
            close(gone[1]);
            close_consumer();
            for (int fd = 3; all_closed && fd < 256; fd++)
                if (fd != gone[0] && fd != ready[1])
                    close(fd);
            sonde_probe_fire(probe);
            _exit(sonde_probe_enabled(probe) || write(ready[1], "x", 1) != 1 || read(gone[0], &byte, 1) != 0 ||
                  sonde_probe_enabled(probe));
        }
        close(gone[0]);
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        sonde_probe_fire(probe);
        assert_int_equal(last(&w).count, 4);
        detach(&w);
        assert_false(sonde_probe_enabled(probe));
        close(gone[1]);
        close(ready[0]);
        wait_for_good_end(child);
        sonde_provider_free(provider);
    }
}

/* A worker that was forked before any consumer attached, as in servers, can be attached by its own PID. */
static void test_forked_worker_can_be_attached(void **state)
{
    (void)state;
    if (skip_without_cookies())
        skip();
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    int go[2], ready[2];
    char byte = 0, path[64];
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(sonde_provider_new("test_worker", &provider), 0);
    assert_int_equal(sonde_probe_add(provider, "worked", "u64 number", &probe), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    pid_t child = fork();
    if (child == 0) {
        if (read(go[0], &byte, 1) != 1 || !sonde_probe_enabled(probe))
            _exit(1);
        for (int i = 1; i <= 4; i++)
            sonde_probe_fire(probe, i);
        _exit(write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1 || sonde_probe_enabled(probe));
    }
    int number = atoi(strrchr(path_of("test_worker"), '/') + 1);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", child, number);
    struct watcher w = attach(child, path, "test_worker", "worked");
    sonde_probe_fire(probe, 99);
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(last(&w).count, 4);
    assert_int_equal(last(&w).values[0], 4);
    assert_int_equal(last(&w).process, child);
    detach(&w);
    assert_int_equal(write(go[1], "x", 1), 1);
    wait_for_good_end(child);
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(ready[i]);
    }
    sonde_provider_free(provider);
}

static void test_unload_while_attached_and_reload(void **state)
{
    (void)state;
    if (skip_without_cookies())
        skip();
    struct sonde_provider *provider;
    struct sonde_probe *early, *late;
    assert_int_equal(sonde_provider_new("test_again", &provider), 0);
    assert_int_equal(sonde_probe_add(provider, "early", "i32 number", &early), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    struct watcher w = attach(getpid(), path_of("test_again"), "test_again", "early");
    assert_int_equal(sonde_probe_add(provider, "late", "i32 number", &late), 0);
    sonde_probe_fire(late, 1); /* silent until it is loaded */
    assert_int_equal(sonde_provider_load(provider), 0);
    assert_true(sonde_probe_enabled(early)); /* loading more does not disturb existing consumers */
    assert_false(sonde_probe_enabled(late));
    sonde_probe_fire(early, 2);
    assert_int_equal(last(&w).count, 1);

    sonde_provider_unload(provider);
    assert_false(sonde_probe_enabled(early));
    sonde_probe_fire(early, 3);
    sonde_probe_fire_values(early, 0, NULL); /* as a thread does that has just checked the semaphore */
    assert_int_equal(last(&w).count, 1);
    assert_int_equal(sonde_provider_load(provider), 0);
    assert_false(sonde_probe_enabled(early)); /* another object: consumers must attach again */
    detach(&w);
    assert_false(sonde_probe_enabled(early));

    w = attach(getpid(), path_of("test_again"), "test_again", "early");
    sonde_probe_fire(early, 4);
    assert_int_equal(last(&w).values[0], 4);
    detach(&w);
    sonde_provider_free(provider);
}

/* In a directory the object is one file for all processes; a consumer attached to it also covers a process that loads
 * later. */
static void test_provider_file_in_a_directory(void **state)
{
    (void)state;
    if (skip_without_cookies())
        skip();
    char directory[] = "/tmp/test-usdt-XXXXXX", path[512] = "";
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(sonde_provider_new("test_file", &provider), 0);
    assert_int_equal(sonde_provider_set_directory(provider, directory), 0);
    assert_int_equal(sonde_probe_add(provider, "one", "i32 number", &probe), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    only_file(directory, path, sizeof(path));
    sonde_provider_unload(provider);
    struct watcher w = attach(-1, path, "test_file", "one");
    assert_int_equal(sonde_provider_load(provider), 0);
    assert_true(sonde_probe_enabled(probe));
    sonde_probe_fire(probe, 5);
    assert_int_equal(last(&w).values[0], 5);
    detach(&w);
    assert_false(sonde_probe_enabled(probe));
    sonde_provider_free(provider);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* A five-byte nop where the kernel replaces it with a call, detected by the system call that such a call uses.
 * Elsewhere the nop that every kernel emulates, because a five-byte one would be single-stepped. */
static void test_cheapest_supported_site_is_used(void **state)
{
    (void)state;
#if defined(__x86_64__)
    static const unsigned char five[] = {0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3}, one[] = {0x90, 0xc3};
    const int optimises = syscall(336) < 0 && errno == ENXIO;
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    unsigned char found[sizeof(five)];
    Elf64_Ehdr header;
    Elf64_Shdr section = {0};
    assert_int_equal(sonde_provider_new("test_site", &provider), 0);
    assert_int_equal(sonde_probe_add(provider, "one", "i32 number", &probe), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    FILE *file = fopen(path_of("test_site"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(&header, sizeof(header), 1, file), 1);
    for (unsigned i = 0; i < header.e_shnum && !(section.sh_flags & SHF_EXECINSTR); i++) {
        assert_int_equal(fseek(file, (long)(header.e_shoff + i * sizeof(section)), SEEK_SET), 0);
        assert_int_equal(fread(&section, sizeof(section), 1, file), 1);
    }
    assert_true(section.sh_flags & SHF_EXECINSTR);
    assert_int_equal(fseek(file, (long)section.sh_offset, SEEK_SET), 0);
    assert_int_equal(fread(found, sizeof(found), 1, file), 1);
    fclose(file);
    assert_memory_equal(found, optimises ? five : one, optimises ? sizeof(five) : sizeof(one));
    sonde_provider_free(provider);
#else
    skip();
#endif
}

int main(void)
{
    libbpf_set_print(silent);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_of_every_type),
        cmocka_unit_test(test_arguments_of_every_count),
        cmocka_unit_test(test_static_probes),
        cmocka_unit_test(test_attach_to_all_processes_survives_fork),
        cmocka_unit_test(test_child_of_an_attached_process_does_not_fire),
        cmocka_unit_test(test_forked_worker_can_be_attached),
        cmocka_unit_test(test_unload_while_attached_and_reload),
        cmocka_unit_test(test_provider_file_in_a_directory),
        cmocka_unit_test(test_cheapest_supported_site_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
