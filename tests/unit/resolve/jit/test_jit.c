/* Names of JIT code in this process: from the perf map and the jitdump, which it writes during the test. */
#include "../jitdump_records.h"

#include "../../emulated.h"

#include "resolve/jit/jit.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CODE   0x100000000000u /* unmapped */
#define MEMORY (1 << 20)

struct fixture {
    struct processes *processes;
    struct jits *jits;
    char path[64];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    *state = f;
    snprintf(f->path, sizeof(f->path), "/tmp/perf-%d.map", (int)getpid());
    assert_int_equal(processes_new(8 << 20, &f->processes), 0);
    assert_int_equal(jits_new(f->processes, MEMORY, &f->jits), 0);
    jits_at(f->jits, clock_monotonic_ns());
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    jits_free(f->jits);
    processes_free(f->processes);
    rmdir(f->path);
    unlink(f->path);
    free(f);
    return 0;
}

/* Appends to the map. */
static void write_map(struct fixture *f, const char *text)
{
    int fd = open(f->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static const char *name_at(struct fixture *f, uint64_t address)
{
    static struct jit_name name;
    const struct process *me = processes_find(f->processes, (uint32_t)getpid(), 0);
    assert_non_null(me);
    jits_begin_turn(f->jits);
    return jits_find(f->jits, me, address, &name) == 0 ? name.function : "";
}

static double metric(struct fixture *f, const char *name)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    jits_metrics(f->jits, set);
    for (size_t i = 0; i < metric_set_families(set); i++)
        if (strcmp(metric_set_family(set, i).name, name) == 0)
            return metric_set_family(set, i).points[0].value;
    fail_msg("no metric %s", name);
    return 0;
}

static void test_growing_map_is_read_on(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    write_map(f, "100000000000 10 one\n100000000010 10 tw");
    assert_string_equal(name_at(f, CODE), "one");
    assert_string_equal(name_at(f, CODE + 0x10), "");
    write_map(f, "o\n");
    assert_string_equal(name_at(f, CODE + 0x1f), "two");
    assert_string_equal(name_at(f, CODE + 0x20), "");
    write_map(f, "100000000008 10 three\n");
    assert_string_equal(name_at(f, CODE + 0x8), "three");
    assert_string_equal(name_at(f, CODE), "");
    assert_string_equal(name_at(f, CODE + 0x1f), "");
    write_map(f, "100000000000 10 JS:*four /srv/a.js:7:9\n");
    struct jit_name name;
    assert_string_equal(name_at(f, CODE), "four");
    assert_int_equal(jits_find(f->jits, processes_find(f->processes, (uint32_t)getpid(), 0), CODE, &name), 0);
    assert_int_equal(name.kind, FRAME_V8JS);
    assert_string_equal(name.file, "/srv/a.js");
    assert_int_equal(name.line, 7);
    assert_true(metric(f, "sonde_self_jit_refused") == 0);
}

/* As `jcmd PID Compiler.perfmap` does each time it is called. */
static void test_rewritten_map_is_read_again(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    write_map(f, "100000000000 10 one\n100000000010 10 two\n");
    assert_string_equal(name_at(f, CODE), "one");
    assert_int_equal(truncate(f->path, 0), 0);
    write_map(f, "100000000000 10 ONE\n"); /* shorter, same file */
    assert_string_equal(name_at(f, CODE), "ONE");
    assert_string_equal(name_at(f, CODE + 0x10), "");
    assert_int_equal(truncate(f->path, 0), 0);
    write_map(f, "100000000000 10 uno\n100000000010 10 due\n100000000020 10 tre\n"); /* longer */
    assert_string_equal(name_at(f, CODE), "uno");
    assert_string_equal(name_at(f, CODE + 0x20), "tre");
    assert_int_equal(unlink(f->path), 0);
    write_map(
        f,
        "100000000000 10 eins\n100000000010 10 zwei\n100000000020 10 drei\n100000000030 10 vier\n"); /* another file */
    assert_string_equal(name_at(f, CODE), "eins");
    assert_string_equal(name_at(f, CODE + 0x30), "vier");
}

/* Every kind of file at that path that is not a map of this process. */
static void test_untrusted_maps_are_refused(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    char other[80];
    snprintf(other, sizeof(other), "%s.other", f->path);
    for (unsigned what = 0; what < 6; what++) {
        if (what == 0) {
            char kept[sizeof(f->path)];
            memcpy(kept, f->path, sizeof(kept));
            memcpy(f->path, other, sizeof(f->path));
            write_map(f, "100000000000 10 one\n");
            memcpy(f->path, kept, sizeof(kept));
            assert_int_equal(symlink(other, f->path), 0);
        } else if (what == 1) {
            assert_int_equal(mkfifo(f->path, 0600), 0);
        } else if (what == 2) {
            assert_int_equal(mkdir(f->path, 0700), 0);
        } else if (what == 3) { /* of an earlier process with this PID */
            write_map(f, "100000000000 10 one\n");
            assert_int_equal(
                utimensat(AT_FDCWD, f->path, (const struct timespec[]){{.tv_sec = 1000}, {.tv_sec = 1000}}, 0), 0);
        } else if (what == 4) {
            write_map(f, "100000000000 10 one\n");
            if (chown(f->path, getuid() + 1, (gid_t)-1) < 0) {
                unlink(f->path);
                continue; /* needs root */
            }
        } else {
            write_map(f, "100000000000 10 one\n");
            assert_int_equal(truncate(f->path, (off_t)1 << 32), 0);
        }
        struct fixture fresh = *f;
        assert_int_equal(jits_new(f->processes, MEMORY, &fresh.jits), 0);
        assert_string_equal(name_at(&fresh, CODE), "");
        assert_true(metric(&fresh, "sonde_self_jit_refused") == 1);
        assert_string_equal(name_at(&fresh, CODE), ""); /* backs off */
        assert_true(metric(&fresh, "sonde_self_jit_refused") == 1);
        jits_free(fresh.jits);
        rmdir(f->path);
        unlink(f->path);
        unlink(other);
    }
    assert_string_equal(name_at(f, CODE), ""); /* a missing file is not a failure */
    assert_true(metric(f, "sonde_self_jit_refused") == 0);
}

/* Above the bound the newest are kept, and no name is wrong. */
static void test_newest_names_are_kept_at_the_bound(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    const unsigned lines = 150000;
    FILE *map = fopen(f->path, "we");
    assert_non_null(map);
    for (unsigned i = 0; i < lines; i++)
        fprintf(map, "%" PRIx64 " 40 f%u\n", CODE + 64 * (uint64_t)i, i);
    fclose(map);
    unsigned named = 0;
    for (unsigned i = 0; i < lines; i += 1000) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i);
        const char *found = name_at(f, CODE + 64 * (uint64_t)i + 63);
        assert_true(found[0] == '\0' || strcmp(found, name) == 0);
        named += found[0] != '\0';
    }
    assert_true(named >= 10 && named < lines / 1000);
    assert_string_equal(name_at(f, CODE + 64 * (uint64_t)(lines - 1)), "f149999");
    assert_true(metric(f, "sonde_self_jit_bytes") < 2 * MEMORY);
}

static void test_trimmed_and_read_again(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    write_map(f, "100000000000 10 one\n");
    assert_string_equal(name_at(f, CODE), "one");
    const double bytes = metric(f, "sonde_self_jit_bytes");
    for (unsigned i = 0; i < 100; i++)
        jits_begin_turn(f->jits);
    jits_trim(f->jits);
    assert_true(metric(f, "sonde_self_jit_bytes") < bytes);
    assert_string_equal(name_at(f, CODE), "one");
    jits_trim(f->jits); /* a cached name is freed, the file in use stays */
    assert_string_equal(name_at(f, CODE), "one");
    jits_limit(f->jits, 1);
    assert_string_equal(name_at(f, CODE), "one");
    jits_forget(f->jits, (uint32_t)getpid());
    assert_string_equal(name_at(f, CODE), "one");
}

static void test_jitdump_by_time(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    char path[64];
    static struct dump dump;
    const uint64_t now_ns = clock_monotonic_ns();
    snprintf(path, sizeof(path), "/tmp/jit-%d.dump", (int)getpid());
    dump_header(&dump, (uint32_t)getpid());
    const struct dump_line lines[] = {{CODE, 11, "a.c"}, {CODE + 16, 12, NULL}};
    dump_lines(&dump, now_ns - 200, CODE, lines, 2);
    dump_load(&dump, now_ns - 200, CODE, 64, "one");
    dump_load(&dump, now_ns - 100, CODE, 64, "two");
    dump_load(&dump, now_ns + 1000000000000u, CODE, 64, "three");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, dump.data, dump.size), dump.size);
    void *mark = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_true(mark != MAP_FAILED);
    write_map(f, "100000000000 10 of_the_map\n100000001000 10 of_the_map\n");

    struct fixture fresh = *f; /* to restart its clock */
    struct jit_name name;
    assert_int_equal(jits_new(f->processes, MEMORY, &fresh.jits), 0);
    jits_at(fresh.jits, now_ns - 150);
    assert_string_equal(name_at(&fresh, CODE + 20), "one");
    assert_int_equal(jits_find(fresh.jits, processes_find(f->processes, (uint32_t)getpid(), 0), CODE + 20, &name), 0);
    assert_string_equal(name.file, "a.c");
    assert_int_equal(name.line, 12);
    assert_int_equal(jits_find(fresh.jits, processes_find(f->processes, (uint32_t)getpid(), 0), CODE + 3, &name), 0);
    assert_int_equal(name.line, 11);
    jits_at(fresh.jits, now_ns);
    assert_string_equal(name_at(&fresh, CODE + 20), "two");
    assert_string_equal(name_at(&fresh, CODE + 0x1000), "of_the_map"); /* not in the dump */
    jits_at(fresh.jits, now_ns + 2000000000000u);
    assert_string_equal(name_at(&fresh, CODE + 20), "three");
    jits_free(fresh.jits);
    munmap(mark, 4096);
    unlink(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_growing_map_is_read_on),     TEST(test_rewritten_map_is_read_again),
        TEST(test_untrusted_maps_are_refused), TEST(test_newest_names_are_kept_at_the_bound),
        TEST(test_trimmed_and_read_again),     TEST(test_jitdump_by_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
