/* Lines of perf maps as V8, HotSpot and .NET write them, and invalid ones. */
#include "resolve/jit/jit_name.h"
#include "resolve/jit/perf_map.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_perf_map_lines(void **state)
{
    static const struct {
        const char *line;
        uint64_t start;
        uint32_t size; /* 0: invalid */
        const char *name;
    } cases[] = {
        {"7fd228005b80 30c JS:*inner /srv/busy.js:1:15", 0x7fd228005b80, 0x30c, "JS:*inner /srv/busy.js:1:15"},
        {"0x00007fd8f8ec7640 0x00000000000000f8 double Busy.inner(int)", 0x7fd8f8ec7640, 0xf8,
         "double Busy.inner(int)"},
        {"00007F0A2C1D5230 2d void [app] App.Program::Main()[Optimized]\r", 0x7f0a2c1d5230, 0x2d,
         "void [app] App.Program::Main()[Optimized]"},
        {"1 1  two blanks ", 1, 1, "two blanks"},
        {"", 0, 0, NULL},
        {"7fd228005b80", 0, 0, NULL},
        {"7fd228005b80 30c", 0, 0, NULL},
        {"7fd228005b80 30c ", 0, 0, NULL},
        {"7fd228005b80 0 nothing", 0, 0, NULL},
        {"7fd228005b80 ffffffffffffffff all", 0, 0, NULL},
        {"ffffffff81000000 30c the_kernels", 0, 0, NULL},
        {"10000000000000000 10 too_long_a_number", 0, 0, NULL},
        {"xyz 10 name", 0, 0, NULL},
        {"0x 10 name", 0, 0, NULL},
        {"-1 10 name", 0, 0, NULL},
        {" 1 10 name", 0, 0, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct perf_map_line line = {0};
        const bool sense = perf_map_parse(cases[i].line, strlen(cases[i].line), &line);
        if (sense != (cases[i].size != 0))
            fail_msg("%s", cases[i].line);
        if (!sense)
            continue;
        assert_int_equal(line.start, cases[i].start);
        assert_int_equal(line.size, cases[i].size);
        assert_int_equal(line.name_bytes, strlen(cases[i].name));
        assert_memory_equal(line.name, cases[i].name, line.name_bytes);
    }
}

static void test_partial_lines(void **state)
{
    static const char text[] = "1000 10 one\nnonsense\n1008 10 two\n3000 10 thr";
    struct code_ranges c = {0};
    struct code_range range;
    uint64_t bad = 0;
    (void)state;
    const size_t whole = sizeof(text) - 1 - strlen("3000 10 thr");
    assert_int_equal(perf_map_take(&c, text, sizeof(text) - 1, 5000, &bad),
                     whole); /* a partial line is completed by the next read */
    assert_int_equal(bad, 1);
    assert_int_equal(c.count, 1);
    assert_false(code_ranges_find(&c, 0x1007, &range));
    assert_true(code_ranges_find(&c, 0x1008, &range));
    assert_int_equal(range.place, 5000 + strlen("1000 10 one\nnonsense\n"));
    assert_int_equal(perf_map_take(&c, "", 0, 0, &bad), 0);

    static char binary[2 * PERF_MAP_LINE_MAX];
    assert_int_equal(perf_map_take(&c, binary, sizeof(binary), 0, &bad), -EBADMSG);
    memset(binary, 'x', sizeof(binary));
    binary[sizeof(binary) - 1] = '\n';
    assert_int_equal(perf_map_take(&c, binary, sizeof(binary), 0, &bad), -EBADMSG);
    code_ranges_clear(&c);
}

static void test_jit_names(void **state)
{
    static const struct {
        const char *name, *function, *file;
        uint32_t line;
        enum frame_kind kind;
    } cases[] = {
        {"JS:*inner /srv/busy.js:12:15", "inner", "/srv/busy.js", 12, FRAME_V8JS},
        {"JS:^Module._load node:internal/modules/cjs/loader:986:24", "Module._load", "node:internal/modules/cjs/loader",
         986, FRAME_V8JS},
        {"LazyCompile:~parse /srv/with blank/a.js:3", "parse", "/srv/with blank/a.js", 3, FRAME_V8JS},
        {"JS:+get size file:///srv/m.mjs:5:7", "get size", "file:///srv/m.mjs", 5, FRAME_V8JS},
        {"JS:~ /srv/busy.js:1:1", "(anonymous:1)", "/srv/busy.js", 1, FRAME_V8JS},
        {"Eval:~ node:internal/main/run:4:9", "(anonymous:4)", "node:internal/main/run", 4, FRAME_V8JS},
        {"JS:*noScript", "noScript", "", 0, FRAME_V8JS},
        {"JS:*f :1:2", "f", "", 0, FRAME_V8JS},
        {"JS:*", "(anonymous:0)", "", 0, FRAME_V8JS},
        {"RegExp:a+b", "RegExp:a+b", "", 0, FRAME_V8JS},
        {"Builtin:ArrayMap", "Builtin:ArrayMap", "", 0, FRAME_NATIVE},
        {"JS:plain", "JS:plain", "", 0, FRAME_NATIVE},
        {"double Busy.inner(int)", "double Busy.inner(int)", "", 0, FRAME_NATIVE},
        {"two\nlines\x7f", "two?lines?", "", 0, FRAME_NATIVE},
        {"", "", "", 0, FRAME_NATIVE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *room = malloc(strlen(cases[i].name) + 1 + JIT_NAME_ROOM); /* exactly the required size */
        struct jit_name name;
        assert_non_null(room);
        memcpy(room, cases[i].name, strlen(cases[i].name) + 1);
        jit_name_parse(room, &name);
        assert_string_equal(name.function, cases[i].function);
        assert_string_equal(name.file, cases[i].file);
        assert_int_equal(name.line, cases[i].line);
        assert_int_equal(name.kind, cases[i].kind);
        free(room);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_perf_map_lines),
        cmocka_unit_test(test_partial_lines),
        cmocka_unit_test(test_jit_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
