/* Names of kernel code: against generated kallsyms files, which cover every corner case, and against this machine's
 * own. */
#include "resolve/kernel/kallsyms.h"
#include "resolve/kernel/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

struct place { /* a directory with files like the ones in /proc */
    char folder[64], kallsyms[96], modules[96];
};

static int set_bpf_rights(bool are_wanted)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, data) < 0)
        return -1;
    const uint32_t of_bpf[] = {CAP_TO_MASK(CAP_SYS_ADMIN), CAP_TO_MASK(CAP_BPF)};
    data[0].effective = are_wanted ? data[0].permitted : data[0].effective & ~of_bpf[0];
    data[1].effective = are_wanted ? data[1].permitted : data[1].effective & ~of_bpf[1];
    return (int)syscall(SYS_capset, &header, data);
}

/* This kernel's own BPF programs may lie where the generated files have modules. */
static int hide_bpf_programs(void **state)
{
    (void)state;
    return set_bpf_rights(false);
}

static int show_bpf_programs(void **state)
{
    (void)state;
    return set_bpf_rights(true);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static struct place place_make(const char *kallsyms, const char *modules)
{
    struct place p;
    snprintf(p.folder, sizeof(p.folder), "/tmp/sonde-test-kernel-XXXXXX");
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.kallsyms, sizeof(p.kallsyms), "%s/kallsyms", p.folder);
    snprintf(p.modules, sizeof(p.modules), "%s/modules", p.folder);
    write_file(p.kallsyms, kallsyms);
    if (modules)
        write_file(p.modules, modules);
    return p;
}

static void place_remove(const struct place *p)
{
    unlink(p->kallsyms);
    unlink(p->modules);
    rmdir(p->folder);
}

static const char small[] = "0000000000000000 A fixed_percpu_data\n"
                            "ffffffff81000000 T _stext\n"
                            "ffffffff81000000 T _text\n"
                            "ffffffff81000000 T startup_64\n"
                            "ffffffff810000f0 t __pfx_local_one\n"
                            "ffffffff81000100 t local_one\n"
                            "ffffffff81000200 W weak_name\n"
                            "ffffffff81000200 T __strong_name\n"
                            "ffffffff81000300 T ___many\n"
                            "ffffffff81000300 T _few\n"
                            "ffffffff81000300 t fewest_but_local\n"
                            "ffffffff81000400 D some_data\n"
                            "ffffffff81000480 t _RNvCs1234_7mycrate3foo\n"
                            "ffffffff81000500 T _etext\n"
                            "ffffffff82000000 T _sinittext\n"
                            "ffffffff82000010 T start_kernel\n"
                            "ffffffff82000020 T _einittext\n"
                            "ffffffff82000020 T past_init\n"
                            "ffffffffc0001080 t second\t[mod_a]\n"
                            "ffffffffc0001000 t first\t[mod_a]\n"
                            "ffffffffc0000040 T tiny\t[mod_b]\n"
                            "ffffffffc0201000 t ftrace_trampoline\t[__builtin__ftrace]\n"
                            "ffffffffc0300000 t bpf_prog_6deef7357e7b4530_drop\t[bpf]\n";
static const char small_modules[] = "mod_a 8192 3 - Live 0xffffffffc0001000 (OE)\n"
                                    "mod_b 128 0 - Live 0xffffffffc0000000\n";

static void expect(struct kernel_symbols *k, uint64_t address, const char *function, const char *mapping)
{
    struct frame f;
    bool found = kernel_symbols_find(k, address, &f);
    assert_string_equal(f.function, function);
    assert_string_equal(f.mapping, mapping);
    assert_string_equal(f.file, "");
    assert_string_equal(f.build_id, "");
    assert_true(f.address == address);
    assert_int_equal(found, *function != '\0');
}

static void test_names_are_found(void **state)
{
    (void)state;
    struct place p = place_make(small, small_modules);
    struct kernel_symbols *k = NULL;
    assert_int_equal(kernel_symbols_new(p.kallsyms, &k), 0);
    const char *core = "[kernel.kallsyms]";
    for (int round = 0; round < 2; round++) { /* the second time from the cache */
        expect(k, 0xffffffff81000000, "startup_64", core);
        expect(k, 0xffffffff810000ef, "startup_64", core);
        expect(k, 0xffffffff810000f5, "__pfx_local_one", core);
        expect(k, 0xffffffff81000100, "local_one", core);
        expect(k, 0xffffffff81000201, "__strong_name", core);
        expect(k, 0xffffffff81000310, "_few", core);
        expect(k, 0xffffffff81000450, "_few", core);
        expect(k, 0xffffffff81000480, "mycrate::foo", core);
        expect(k, 0xffffffff810004ff, "mycrate::foo", core);
        expect(k, 0xffffffff81000500, "", core); /* past the text */
        expect(k, 0xffffffff82000010, "", core); /* init code is freed */
        expect(k, 0xffffffff80ffffff, "", core);
        expect(k, 0xffffffffc0001000, "first", "[mod_a]");
        expect(k, 0xffffffffc000107f, "first", "[mod_a]");
        expect(k, 0xffffffffc0001080, "second", "[mod_a]");
        expect(k, 0xffffffffc0002fff, "second", "[mod_a]");
        expect(k, 0xffffffffc0003000, "", core); /* past the module */
        expect(k, 0xffffffffc0000040, "tiny", "[mod_b]");
        expect(k, 0xffffffffc0000080, "", core);
        expect(k, 0xffffffffc000003f, "", core);
        expect(k, 0xffffffffc0201010, "ftrace_trampoline", "[__builtin__ftrace]");
        expect(k, 0xffffffffc0202000, "", core);
    }
    struct frame f;
    assert_true(kernel_symbols_find(k, 0xffffffffc0300004, &f));
    assert_int_equal(f.kind, FRAME_BPF);
    assert_string_equal(f.function, "bpf_prog_6deef7357e7b4530_drop");
    assert_true(kernel_symbols_find(k, 0xffffffff81000100, &f));
    assert_int_equal(f.kind, FRAME_KERNEL);
    kernel_symbols_free(k);
    place_remove(&p);
}

static void test_later_modules_are_found(void **state)
{
    (void)state;
    struct place p = place_make(small, small_modules);
    struct kernel_symbols *k = NULL;
    assert_int_equal(kernel_symbols_new(p.kallsyms, &k), 0);
    expect(k, 0xffffffffc0500010, "", "[kernel.kallsyms]");
    expect(k, 0xffffffffc0001000, "first", "[mod_a]");

    /* mod_a is unloaded, another module takes its place, and one more is loaded */
    char text[4096], modules[1024];
    snprintf(text, sizeof(text), "%.*s", (int)(strstr(small, "ffffffffc0001080") - small), small);
    strncat(text, "ffffffffc0001000 t instead\t[mod_c]\nffffffffc0500000 t later\t[mod_d]\n",
            sizeof(text) - strlen(text) - 1);
    snprintf(modules, sizeof(modules),
             "mod_c 4096 0 - Live 0xffffffffc0001000\nmod_d 4096 0 - Live 0xffffffffc0500000\n");
    write_file(p.kallsyms, text);
    write_file(p.modules, modules);
    kernel_symbols_expire(k);
    expect(k, 0xffffffffc0001000, "instead", "[mod_c]");
    expect(k, 0xffffffffc0500010, "later", "[mod_d]");
    expect(k, 0xffffffffc0000040, "", "[kernel.kallsyms]");
    expect(k, 0xffffffff81000100, "local_one", "[kernel.kallsyms]");
    kernel_symbols_free(k);
    place_remove(&p);
}

/* Answers like a kernel that knows the symbols of `small`. */
static const char *fake_ask(void *context, uint64_t address)
{
    ++*(int *)context;
    switch (address) {
    case 0xffffffff81000101:
        return "asked+one+0x1/0x100";
    case 0xffffffffc0001002:
        return "in_module+0x2/0x80 [mod_a]";
    case 0xffffffffc0001003:
        return "in_module+0x3/0x80 [mod_a 0123456789abcdef]";
    case 0xffffffffc0300104:
        return "bpf_prog_6deef7357e7b4530_pass+0x4/0x100";
    case 0xffffffffc0300204:
        return "bpf_trampoline_6442536467+0x4/0x1000";
    case 0xffffffffff600000:
        return "__stop_runtime_ptr_USER_PTR_MAX+0x7bad9910/0xfffffffffe6e29d8";
    case 0xffffffff81000105:
        return "+0xzz";
    case 0xffffffff81000106:
        return "";
    }
    return NULL;
}

static void test_kernel_answers_are_used(void **state)
{
    (void)state;
    struct place p = place_make(small, small_modules);
    struct kernel_symbols *k = NULL;
    int asked = 0;
    const struct kernel_asker asker = {
        .ask = fake_ask, .context = &asked, .text_start = 0xffffffff81000000, .text_end = 0xffffffff81000500};
    assert_int_equal(kernel_symbols_new(p.kallsyms, &k), 0);
    kernel_symbols_set_asker(k, &asker);
    write_file(p.kallsyms, ""); /* not needed for these */
    for (int round = 0; round < 2; round++) {
        struct frame f;
        expect(k, 0xffffffff81000101, "asked+one", "[kernel.kallsyms]");
        expect(k, 0xffffffff81000102, "", "[kernel.kallsyms]");
        expect(k, 0xffffffff81000105, "", "[kernel.kallsyms]");
        expect(k, 0xffffffff81000106, "", "[kernel.kallsyms]");
        expect(k, 0xffffffffc0001002, "in_module", "[mod_a]");
        expect(k, 0xffffffffc0001003, "in_module", "[mod_a]");
        expect(k, 0xffffffffc0300204, "bpf_trampoline_6442536467", "[bpf]");
        expect(k, 0xffffffffff600000, "", "[kernel.kallsyms]");
        assert_true(kernel_symbols_find(k, 0xffffffffc0300104, &f));
        assert_int_equal(f.kind, FRAME_BPF);
        assert_string_equal(f.function, "bpf_prog_6deef7357e7b4530_pass");
        assert_string_equal(f.mapping, "[bpf]");
    }
    int before = asked;
    expect(k, 0xffffffff81000101, "asked+one", "[kernel.kallsyms]");
    assert_int_equal(asked, before); /* names that never change are queried once */

    /* names that the kernel does not return come from the text, as long as the modules are the same */
    write_file(p.kallsyms, small);
    kernel_symbols_expire(k);
    expect(k, 0xffffffffc0201010, "ftrace_trampoline", "[__builtin__ftrace]");
    write_file(p.kallsyms, "ffffffff81000000 T _stext\n");
    write_file(p.modules, "");
    kernel_symbols_expire(k);
    expect(k, 0xffffffffc0201010, "", "[kernel.kallsyms]");
    kernel_symbols_free(k);
    place_remove(&p);
}

static void test_missing_permission_is_reported(void **state)
{
    (void)state;
    struct place p =
        place_make("0000000000000000 A fixed_percpu_data\n0000000000000000 T _stext\n0000000000000000 t a\n", NULL);
    struct kernel_symbols *k = NULL;
    assert_int_equal(kernel_symbols_new(p.kallsyms, &k), -EPERM);
    assert_null(k);
    place_remove(&p);
    assert_int_equal(kernel_symbols_new("/nonexistent/kallsyms", &k), -ENOENT);
    assert_null(k);
}

static void test_damaged_lines_are_skipped(void **state)
{
    (void)state;
    static const char text[] =
        "ffffffff81000000 T good\n\n \nT\nffffffff8100zzzz T x\nffffffffffffffffff81000000 T long\n"
        "ffffffff81000010 T\nffffffff81000020 T \nffffffff81000030 T a\t\nffffffff81000030 T b\t[\n"
        "ffffffff81000040 T fine\t[m]\nffffffff81000050 T unfinished";
    struct place p = place_make(text, "m\nm x\nm 0x\nm 18446744073709551615 0 - Live 0xffffffffffffffff\n");
    struct kernel_symbols *k = NULL;
    assert_int_equal(kernel_symbols_new(p.kallsyms, &k), 0);
    expect(k, 0xffffffff81000000, "good", "[kernel.kallsyms]");
    expect(k, 0xffffffff81000040, "fine", "[m]");
    kernel_symbols_free(k);
    place_remove(&p);
}

/* The strings of a whole stack must stay valid while it is filled frame by frame. */
static void hold_stacks(size_t entries)
{
    size_t size = 0, room = 1 << 20;
    char *text = calloc(1, room);
    assert_non_null(text);
    for (int i = 0; i < 8000; i++)
        size += snprintf(text + size, room - size, "%016llx T function_with_quite_a_long_name_%d\n",
                         0xffffffff81000000ull + i * 16, i);
    struct place p = place_make(text, NULL);
    struct kernel_symbols *k = NULL;
    assert_int_equal(kernel_symbols_new(p.kallsyms, &k), 0);
    if (entries)
        assert_int_equal(kernel_symbols_limit(k, entries), 0);
    for (int first = 0; first + 500 <= 8000; first += 137) {
        struct frame frames[500];
        for (int i = 0; i < 500; i++)
            assert_true(kernel_symbols_find(k, 0xffffffff81000000ull + (first + i) * 16 + 3, &frames[i]));
        for (int i = 0; i < 500; i++) {
            char name[64];
            snprintf(name, sizeof(name), "function_with_quite_a_long_name_%d", first + i);
            assert_string_equal(frames[i].function, name);
        }
    }
    kernel_symbols_free(k);
    place_remove(&p);
    free(text);
}

static void test_names_stay_valid_for_a_whole_stack(void **state)
{
    (void)state;
    hold_stacks(0);
}

/* Almost every lookup misses the cache: names stay the same. */
static void test_small_cache_changes_no_name(void **state)
{
    (void)state;
    hold_stacks(16);
    hold_stacks(1);
}

/* On this machine: the name found at a symbol's address must be one of those in the text at that address, and must be
 * the same just before the next symbol. */
static void test_names_agree_with_this_kernel(void **state)
{
    (void)state;
    int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
    struct kallsyms *table = NULL;
    int r = fd < 0 ? -errno : kallsyms_read(fd, -1, &table);
    if (r == -EPERM || r == -ENOENT || r == -EACCES) {
        print_message("skipped: no right to read kernel addresses, or no kallsyms\n");
        skip();
    }
    assert_int_equal(r, 0);
    FILE *f = fopen("/proc/kallsyms", "re");
    assert_non_null(f);
    char line[1024];
    uint64_t run_address = 0, checked = 0, names_at_run = 0, etext = 0;
    bool run_named = true;
    while (fgets(line, sizeof(line), f)) {
        uint64_t address;
        char type, name[600], module[100] = "";
        int fields = sscanf(line, "%lx %c %599s %99s", &address, &type, name, module);
        if (fields < 3 || !strchr("tTwW", type) || *module || etext)
            continue;
        if (!strcmp(name, "_etext"))
            etext = address;
        struct kallsyms_symbol s;
        if (address != run_address) {
            assert_true(run_named);
            run_address = address;
            run_named = etext || false;
            names_at_run = 0;
            if (kallsyms_find(table, address - 1, &s))
                assert_true(s.start < address);
        }
        if (etext)
            break;
        assert_true(kallsyms_find(table, address, &s));
        assert_true(s.start == address);
        run_named |= !strcmp(s.name, name);
        names_at_run++;
        checked++;
    }
    fclose(f);
    assert_true(checked > 1000);
    assert_true(kallsyms_bytes(table) < (3u << 20));
    print_message("%lu symbols of this kernel in %zu bytes (%u kept)\n", checked, kallsyms_bytes(table),
                  kallsyms_count(table));
    kallsyms_free(table);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_names_are_found, hide_bpf_programs),
        cmocka_unit_test_setup(test_later_modules_are_found, hide_bpf_programs),
        cmocka_unit_test_setup(test_kernel_answers_are_used, hide_bpf_programs),
        cmocka_unit_test_setup(test_missing_permission_is_reported, hide_bpf_programs),
        cmocka_unit_test_setup(test_damaged_lines_are_skipped, hide_bpf_programs),
        cmocka_unit_test_setup(test_names_stay_valid_for_a_whole_stack, hide_bpf_programs),
        cmocka_unit_test_setup(test_small_cache_changes_no_name, hide_bpf_programs),
        cmocka_unit_test_setup(test_names_agree_with_this_kernel, show_bpf_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
