/* Names of native code in every form of file: stripped, with a debug link, a build id, .gnu_debugdata, a PLT; tested
 * on copies of this program, compared with the output of nm and objdump for the whole one. */
#include "resolve/symbols/symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../emulated.h"
#include "../object_by_path.h"

#define SMALLEST 1
#define LARGE    (8u << 20)
static const size_t cache_sizes[] = {SMALLEST, LARGE};

/* A container's view: the files below this directory, if it is set. */
static const char *container;
static bool cannot_be_asked;
int object_open_in_process_root(const struct object *o, const char *path)
{
    char full[4200];
    (void)o;
    if (cannot_be_asked)
        return -EAGAIN;
    if (!container)
        return -ENOENT;
    snprintf(full, sizeof(full), "%s%s", container, path);
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static struct symbols *symbols_make(size_t cache_bytes, const char *debug_root)
{
    struct symbols_options options = {.cache_bytes = cache_bytes, .debug_root = debug_root};
    struct symbols *s = NULL;
    assert_int_equal(symbols_new(&options, &s), 0);
    return s;
}

static char folder[64];

#ifdef __aarch64__
#define MACHINE "aarch64"
#else
#define MACHINE "x86_64"
#endif

static bool run_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool run_shell(const char *format, ...)
{
    char command[4096], full[5000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    snprintf(full, sizeof(full), "cd %s && exec 2>/dev/null; %s", folder, command);
    FILE *f = popen(full, "re");
    if (!f)
        return false;
    char line[256];
    while (fgets(line, sizeof(line), f))
        continue;
    return pclose(f) == 0;
}

/* The host's binutils read only the host's programs: for cross builds the prefix of the others is used. */
static void use_cross_binutils(const char *prefix)
{
    assert_true(run_shell("mkdir tools && cd tools && for tool in nm objcopy objdump readelf strip; do"
                          " printf '#!/bin/sh\\nexec %s%%s \"$@\"\\n' $tool >$tool && chmod 755 $tool || exit 1; done",
                          prefix));
    char path[4200];
    const char *usual = getenv("PATH");
    snprintf(path, sizeof(path), "%s/tools:%s", folder, usual ? usual : "/usr/bin:/bin");
    assert_int_equal(setenv("PATH", path, 1), 0);
}

static int make_forms(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/sonde-test-symbols-XXXXXX");
    assert_non_null(mkdtemp(folder));
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = '\0';
    assert_true(run_shell("cp '%s' whole && chmod 755 whole", self));
    if (is_emulated())
        use_cross_binutils(MACHINE "-linux-gnu-");
    return 0;
}

static int remove_forms(void **state)
{
    (void)state;
    run_shell("rm -rf %s", folder);
    return 0;
}

#define NAMES_MAX 4000
struct named_place {
    uint64_t offset, vaddr;
    char *name;
};
static struct named_place places[NAMES_MAX];
static size_t place_count;

/* Every function of this program by name and address, as nm prints them. */
static void read_places(void)
{
    if (place_count)
        return;
    char command[256], line[1024];
    snprintf(command, sizeof(command), "nm --defined-only %s/whole 2>/dev/null", folder);
    FILE *f = popen(command, "re");
    assert_non_null(f);
    while (place_count < NAMES_MAX && fgets(line, sizeof(line), f)) {
        uint64_t address;
        char type, name[600];
        if (sscanf(line, "%lx %c %599s", &address, &type, name) != 3 || !strchr("Tt", type) || strchr(name, '.'))
            continue;
        places[place_count++] = (struct named_place){.vaddr = address, .name = strdup(name)};
    }
    pclose(f);
    if (!place_count)
        return;
    /* from addresses to offsets, by the program headers */
    char path[96];
    snprintf(path, sizeof(path), "%s/whole", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr header;
    assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
    for (int i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        assert_int_equal(pread(fd, &segment, sizeof(segment), header.e_phoff + i * sizeof(segment)), sizeof(segment));
        for (size_t k = 0; k < place_count && segment.p_type == PT_LOAD; k++)
            if (places[k].vaddr - segment.p_vaddr < segment.p_filesz)
                places[k].offset = places[k].vaddr - segment.p_vaddr + segment.p_offset;
    }
    close(fd);
}

/* How many of nm's functions have one of nm's names at their address in this form of the program. */
static size_t count_named(const char *form, const char *root, size_t cache_bytes)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/%s", folder, form);
    struct object o = {.id = 1, .path = path, .build_id = ""};
    struct symbols *s = symbols_make(cache_bytes, root);
    size_t named = 0;
    for (size_t i = 0; i < place_count; i++) {
        struct symbol found;
        symbols_find(s, &o, places[i].offset, &found);
        assert_true(found.address == places[i].vaddr);
        bool ok = !strcmp(found.function, places[i].name);
        for (size_t k = 0; k < place_count && !ok; k++)
            ok = places[k].vaddr == places[i].vaddr && !strcmp(found.function, places[k].name);
        if (!ok && *found.function)
            print_message("%s: %s called %s\n", form, places[i].name, found.function);
        assert_true(ok || !*found.function);
        named += ok;
    }
    symbols_free(s);
    return named;
}

static void need_tools(void)
{
    if (!run_shell("nm --version && objcopy --version && strip --version && objdump --version && xz --version")) {
        print_message("skipped: binutils or xz are not installed\n");
        skip();
    }
    read_places();
    if (!place_count) {
        print_message("skipped: this program has no symbols\n");
        skip();
    }
}

static void test_own_symbols_match_nm(void **state)
{
    (void)state;
    need_tools();
    assert_true(place_count > 100);
    for (size_t c = 0; c < array_size(cache_sizes); c++)
        assert_int_equal(count_named("whole", "/nonexistent", cache_sizes[c]), place_count);
}

static void test_stripped_file_has_few_names(void **state)
{
    (void)state;
    need_tools();
    assert_true(run_shell("strip -s -o stripped whole"));
    assert_true(count_named("stripped", "/nonexistent", LARGE) < place_count / 4);
}

static void test_debug_file_by_debug_link(void **state)
{
    (void)state;
    need_tools();
    assert_true(run_shell("objcopy --only-keep-debug whole linked.debug && strip -s -o linked whole &&"
                          "objcopy --add-gnu-debuglink=linked.debug linked"));
    for (size_t c = 0; c < array_size(cache_sizes); c++)
        assert_int_equal(count_named("linked", "/nonexistent", cache_sizes[c]), place_count);
    /* in .debug next to it, and below the root */
    assert_true(run_shell("mkdir -p .debug root%s && mv linked.debug .debug/", folder));
    assert_int_equal(count_named("linked", "/nonexistent", LARGE), place_count);
    char root[96];
    snprintf(root, sizeof(root), "%s/root", folder);
    assert_true(run_shell("mv .debug/linked.debug root%s/", folder));
    assert_int_equal(count_named("linked", root, LARGE), place_count);
}

static void test_debug_link_checksum_is_verified(void **state)
{
    (void)state;
    need_tools();
    /* without a build id the checksum decides */
    assert_true(run_shell("objcopy -R .note.gnu.build-id whole bare && objcopy --only-keep-debug bare summed.debug &&"
                          "strip -s -o summed bare && objcopy --add-gnu-debuglink=summed.debug summed"));
    assert_int_equal(count_named("summed", "/nonexistent", LARGE), place_count);
    assert_true(run_shell("printf x >>summed.debug"));
    assert_true(count_named("summed", "/nonexistent", LARGE) < place_count / 4);
    /* with one, another program's debug file is refused although the name is right */
    if (!run_shell("readelf -n whole | grep -q 'Build ID'"))
        return;
    assert_true(run_shell(
        "objcopy --only-keep-debug whole other.debug && strip -s -o other whole &&"
        "objcopy --add-gnu-debuglink=other.debug other &&"
        "objcopy --dump-section .note.gnu.build-id=note other.debug && tr '\\000-\\377' '\\001-\\377\\000' <note >half &&"
        "(head -c 16 note; tail -c +17 half) >changed &&"
        "objcopy --update-section .note.gnu.build-id=changed whole twin &&"
        "objcopy --only-keep-debug twin other.debug"));
    assert_true(count_named("other", "/nonexistent", LARGE) < place_count / 4);
}

static void test_debug_file_by_build_id(void **state)
{
    (void)state;
    need_tools();
    if (!run_shell("readelf -n whole | grep -q 'Build ID'")) {
        print_message("skipped: this program has no build id\n");
        skip();
    }
    assert_true(run_shell(
        "id=$(readelf -n whole | sed -n 's/.*Build ID: //p'); head=$(echo $id | cut -c1-2); tail=$(echo $id | cut -c3-);"
        "mkdir -p ids/.build-id/$head && objcopy --only-keep-debug whole ids/.build-id/$head/$tail.debug &&"
        "strip -s -o unlinked whole"));
    char root[96];
    snprintf(root, sizeof(root), "%s/ids", folder);
    assert_int_equal(count_named("unlinked", root, LARGE), place_count);
    assert_int_equal(count_named("unlinked", root, SMALLEST), place_count);
    /* the same inside a container only */
    assert_true(run_shell("mkdir -p box/debug && mv ids/.build-id box/debug/"));
    assert_true(count_named("unlinked", "/debug", LARGE) < place_count / 4);
    char box[96];
    snprintf(box, sizeof(box), "%s/box", folder);
    container = box;
    size_t named = count_named("unlinked", "/debug", LARGE);
    assert_int_equal(named, place_count);
    /* a file that cannot be read now is not treated as absent */
    char path[96];
    snprintf(path, sizeof(path), "%s/unlinked", folder);
    struct object o = {.id = 1, .path = path, .build_id = ""};
    struct symbols *s = symbols_make(LARGE, "/debug");
    struct symbol found;
    cannot_be_asked = true;
    assert_int_equal(symbols_find(s, &o, places[0].offset, &found), -ETIMEDOUT);
    assert_string_equal(found.function, "");
    cannot_be_asked = false;
    assert_int_equal(symbols_find(s, &o, places[0].offset, &found), 0);
    assert_true(*found.function);
    symbols_free(s);
    container = NULL;
}

static void test_gnu_debugdata(void **state)
{
    (void)state;
    need_tools();
    assert_true(run_shell("nm whole --format=posix --defined-only | awk '$2 ~ /[Tt]/ {print $1}' | sort >keep &&"
                          "objcopy --only-keep-debug whole d && objcopy -S --keep-symbols=keep d mini && xz -k mini &&"
                          "strip -s -o packed whole && objcopy --add-section .gnu_debugdata=mini.xz packed"));
    for (size_t c = 0; c < array_size(cache_sizes); c++)
        assert_int_equal(count_named("packed", "/nonexistent", cache_sizes[c]), place_count);
    /* damaged in the middle: fewer names, none of them wrong */
    assert_true(run_shell(
        "(head -c 200 mini.xz; head -c 300 /dev/zero; tail -c +501 mini.xz) >bad.xz && strip -s -o broken whole &&"
        "objcopy --add-section .gnu_debugdata=bad.xz broken"));
    assert_true(count_named("broken", "/nonexistent", LARGE) < place_count / 4);
}

static void test_plt_stubs_are_named(void **state)
{
    (void)state;
    need_tools();
    char command[256], line[1024], path[96];
    snprintf(path, sizeof(path), "%s/whole", folder);
    snprintf(command, sizeof(command), "objdump -d -j .plt -j .plt.sec -j .plt.got %s 2>/dev/null | grep '@plt>:'",
             path);
    FILE *f = popen(command, "re");
    assert_non_null(f);
    struct object o = {.id = 1, .path = path, .build_id = ""};
    struct symbols *s = symbols_make(LARGE, "/nonexistent");
    size_t checked = 0;
    while (fgets(line, sizeof(line), f)) {
        uint64_t address;
        char name[600];
        assert_int_equal(sscanf(line, "%lx <%599[^>]>", &address, name), 2);
        if (*name == '*')
            continue;
        struct symbol found;
        /* code of a PIE is at its own offset, or a multiple of pages from it: found by the nearest known function */
        uint64_t shift = places[0].vaddr - places[0].offset;
        assert_int_equal(symbols_find(s, &o, address + 5 - shift, &found), 0);
        char *version = strchr(name, '@');
        memmove(version, "@plt", 5);
        assert_string_equal(found.function, name);
        assert_true(found.address == address + 5);
        checked++;
    }
    pclose(f);
    symbols_free(s);
    print_message("%zu stubs\n", checked);
#ifndef __SANITIZE_ADDRESS__
    assert_true(checked > 5);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_symbols_match_nm),     cmocka_unit_test(test_stripped_file_has_few_names),
        cmocka_unit_test(test_debug_file_by_debug_link), cmocka_unit_test(test_debug_link_checksum_is_verified),
        cmocka_unit_test(test_debug_file_by_build_id),   cmocka_unit_test(test_gnu_debugdata),
        cmocka_unit_test(test_plt_stubs_are_named),
    };
    return cmocka_run_group_tests(tests, make_forms, remove_forms);
}
