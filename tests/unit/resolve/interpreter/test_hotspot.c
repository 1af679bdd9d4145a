/* Names of Java methods: as HotSpot formats them, truncated and invalid ones; lines of their bytecode; eviction and
 * re-emission; whose memory is read. */
#include "base/buf.h"
#include "resolve/interpreter/hotspot_lines.h"
#include "resolve/interpreter/hotspot_name.h"
#include "resolve/interpreter/interpreter.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probes/hotspot.h"

static struct hotspot_text text(const char *t)
{
    return (struct hotspot_text){t, strlen(t), strlen(t)};
}

static void expect_name(const char *holder, const char *name, const char *signature, const char *expected)
{
    _cleanup_buf_ struct buf out = {0};
    const struct hotspot_text h = text(holder), n = text(name), s = text(signature);
    assert_int_equal(hotspot_name_write(&h, &n, &s, &out), 0);
    assert_string_equal(out.size ? out.data : "", expected);
}

static void test_names_match_hotspots_perf_map(void **state)
{
    (void)state;
    expect_name("java/util/HashMap", "get", "(Ljava/lang/Object;)Ljava/lang/Object;",
                "java.lang.Object java.util.HashMap.get(java.lang.Object)");
    expect_name("A", "<init>", "()V", "void A.<init>()");
    expect_name("A", "f", "(BCDFIJSZ)[[I", "int[][] A.f(byte, char, double, float, int, long, short, boolean)");
    expect_name("A$$Lambda$14+0x00007f3644000a10", "run", "([La/B;)V",
                "void A$$Lambda$14/0x00007f3644000a10.run(a.B[])");
    expect_name("A+B", "f", "()V", "void A+B.f()");
    expect_name("", "StubRoutines (1)", "", "StubRoutines (1)");
    expect_name("\xd0\x9f", "\xe2\x82\xac", "()V", "void \xd0\x9f.\xe2\x82\xac()");
}

static void test_invalid_parts_are_omitted(void **state)
{
    (void)state;
    static const char *const signatures[] = {"",      "V",    "(",    "()",   "(V",  "()Q", "(L)V",
                                             "(Lx)V", "()Lx", "()VV", "([)V", "(((", "()["};
    for (size_t i = 0; i < sizeof(signatures) / sizeof(*signatures); i++)
        expect_name("A", "f", signatures[i], "A.f");
    char deep[400];
    memset(deep, '[', sizeof(deep));
    memcpy(deep, "()", 2);
    memcpy(deep + sizeof(deep) - 2, "I", 2);
    expect_name("A", "f", deep, "A.f");
    expect_name("A\n", "f\x7f\x1b[", "()V", "void A?.f??[()");
    expect_name("\xc0\x80", "\xff", "()V", "void \xef\xbf\xbd\xef\xbf\xbd.\xef\xbf\xbd()");
}

static void test_truncated_names_are_marked(void **state)
{
    _cleanup_buf_ struct buf out = {0};
    struct hotspot_text holder = text("java/lang/Lo"), name = text("veryLo"), signature = text("(II");
    (void)state;
    holder.whole = name.whole = signature.whole = 1000;
    assert_int_equal(hotspot_name_write(&holder, &name, &signature, &out), 0);
    assert_string_equal(out.data, "java.lang.Lo....veryLo...(...)");
}

#define PID 4711

/* Bytecode 0: line 14, 3: line 15, 40: line 1000, 60: line 990; then in line 990 + 2 at 50. */
static const uint8_t lines_of_17[] = {0xff, 0, 28, 3 << 3 | 1, 0xff, 37 * 2, 242, 27, 20 << 3 | 0,
                                      0xff, 0, 19, 0xff,       19,   4,      0,   77},
                     lines_of_25[] = {0xff,        1,    29, 3 << 3 | 1, 0xff, 37 * 2 + 1, 243, 28,
                                      20 << 3 | 0, 0xff, 1,  20,         0xff, 20,         5,   0};

static void test_line_of_a_bytecode(void **state)
{
    (void)state;
    static const struct {
        uint32_t index, line;
    } expected[] = {{0, 14},    {2, 14},   {3, 15},   {39, 15},  {40, 1000},
                    {49, 1000}, {50, 992}, {59, 992}, {60, 990}, {65535, 990}};
    assert_int_equal(hotspot_lines_bytes(lines_of_17, sizeof(lines_of_17)), sizeof(lines_of_17) - 1);
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        assert_int_equal(hotspot_line(lines_of_17, sizeof(lines_of_17), 0, expected[i].index), expected[i].line);
        assert_int_equal(hotspot_line(lines_of_25, sizeof(lines_of_25), 1, expected[i].index), expected[i].line);
    }
}

static void test_line_table_without_its_end(void **state)
{
    (void)state;
    static const uint8_t long_number[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0};
    assert_int_equal(hotspot_line(lines_of_17, 0, 0, 0), 0);
    assert_int_equal(hotspot_lines_bytes(lines_of_17, 4), 4);
    assert_int_equal(hotspot_line(lines_of_17, 4, 0, 3), 15); /* the entry itself is there */
    assert_int_equal(hotspot_line(lines_of_17, 4, 0, 4), 0);  /* another one may follow */
    assert_int_equal(hotspot_line(lines_of_17, 6, 0, 50), 0); /* in the middle of an entry */
    hotspot_line(long_number, sizeof(long_number), 0, 7);
    assert_int_equal(hotspot_lines_bytes(long_number, sizeof(long_number)), sizeof(long_number));
}

static struct hotspot_method method_record(uint64_t method, const char *holder, const char *name, const char *signature,
                                           const char *file)
{
    struct hotspot_method m = {
        .h = {.size_bytes = sizeof(m), .kind = RECORD_HOTSPOT_METHOD, .pid = PID}, .method = method, .check = 1};
    m.class_bytes = (uint16_t)strlen(holder);
    m.name_bytes = (uint16_t)strlen(name);
    m.signature_bytes = (uint16_t)strlen(signature);
    m.file_bytes = (uint16_t)strlen(file);
    memcpy(m.class_data, holder, m.class_bytes);
    memcpy(m.name_data, name, m.name_bytes);
    memcpy(m.signature_data, signature, m.signature_bytes);
    memcpy(m.file_data, file, m.file_bytes);
    return m;
}

static void *open_with(size_t max_bytes)
{
    void *x;
    assert_int_equal(interpreter_hotspot.open(max_bytes, &x), 0);
    return x;
}

static void test_method_key_includes_process_and_check(void **state)
{
    void *x = open_with(1 << 20);
    struct interpreted_name name;
    struct missing_code missing[4];
    struct hotspot_method m = method_record(4096, "A", "f", "()V", "A.java");
    struct interpreter_entry entry = {.code = 4096, .check = 1};
    (void)state;
    assert_int_equal(interpreter_hotspot.take(x, &m.h), 0);
    assert_int_equal(interpreter_hotspot.find(x, PID, &entry, &name), 0);
    assert_string_equal(name.function, "void A.f()");
    assert_string_equal(name.file, "A.java");
    assert_int_equal(name.line, 0);
    assert_int_equal(interpreter_hotspot.find(x, PID + 1, &entry, &name), -ENOENT);
    entry.check = 2; /* another method is at that address now */
    assert_int_equal(interpreter_hotspot.find(x, PID, &entry, &name), -ENOENT);
    entry.check = 0; /* it could not be read: requesting it again would not help */
    assert_int_equal(interpreter_hotspot.find(x, PID, &entry, &name), -ENOENT);
    assert_int_equal(interpreter_hotspot.missing(x, missing, 4), 2);
    m = method_record(4096, "B", "g", "()V", ""); /* emitted once more, with other names */
    assert_int_equal(interpreter_hotspot.take(x, &m.h), 0);
    entry.check = 1;
    assert_int_equal(interpreter_hotspot.find(x, PID, &entry, &name), 0);
    assert_string_equal(name.function, "void B.g()");
    assert_string_equal(name.file, "");
    m.h.size_bytes--;
    assert_int_equal(interpreter_hotspot.take(x, &m.h), -EBADMSG);
    interpreter_hotspot.free(x);
}

static void test_least_recently_used_method_is_evicted_and_requested_again(void **state)
{
    void *x = open_with(800); /* eleven codes */
    struct interpreted_name name;
    struct missing_code missing[64];
    const struct interpreter_entry first = {.code = 0, .check = 1}, second = {.code = 4096, .check = 1};
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        const struct hotspot_method m = method_record(4096 * i, "A", "f", "()V", "A.java");
        assert_int_equal(interpreter_hotspot.take(x, &m.h), 0);
        assert_int_equal(interpreter_hotspot.find(x, PID, &first, &name), 0);
    }
    const size_t count = interpreter_hotspot.missing(x, missing, 64);
    assert_in_range(count, 5, 18);
    assert_int_equal(interpreter_hotspot.find(x, PID, &second, &name), -ENOENT);
    for (size_t i = 0; i < count; i++)
        assert_int_not_equal(missing[i].code, 0);
    interpreter_hotspot.free(x);
}

static void test_entry_has_the_line_of_its_bytecode(void **state)
{
    void *x = open_with(1 << 20);
    struct interpreted_name name;
    union {
        struct hotspot_method m;
        uint8_t bytes[sizeof(struct hotspot_method) + 24];
    } record = {.m = method_record(4096, "A", "f", "()V", "A.java")};
    struct interpreter_entry entry = {.code = 4096, .check = 1};
    (void)state;
    record.m.lines_bytes = sizeof(lines_of_25);
    record.m.number_bias = 1;
    record.m.h.size_bytes = sizeof(record);
    memcpy(record.m.lines, lines_of_25, sizeof(lines_of_25));
    assert_int_equal(interpreter_hotspot.take(x, &record.m.h), 0);
    entry.instruction = 7 | (3 + 1) << INTERPRETER_ENTRY_POSITION_SHIFT;
    assert_int_equal(interpreter_hotspot.find(x, PID, &entry, &name), 0);
    assert_string_equal(name.function, "void A.f()");
    assert_string_equal(name.file, "A.java");
    assert_int_equal(name.line, 15);
    assert_false(name.is_first_line);
    entry.instruction = 7 | INTERPRETER_ENTRY_CALLER; /* unknown: where the method begins */
    assert_int_equal(interpreter_hotspot.find(x, PID, &entry, &name), 0);
    assert_int_equal(name.line, 14);
    assert_true(name.is_first_line);
    record.m.lines_bytes = 25;
    assert_int_equal(interpreter_hotspot.take(x, &record.m.h), -EBADMSG);
    record.m.h.size_bytes = UINT32_MAX;
    record.m.lines_bytes = HOTSPOT_LINES_BYTES + 1;
    assert_int_equal(interpreter_hotspot.take(x, &record.m.h), -EBADMSG);
    interpreter_hotspot.free(x);
}

/* Without permission to read memory, or in a replay, no process has a layout. */
static void test_no_layout_without_memory_access(void **state)
{
    void *x = open_with(1 << 20);
    struct interpreter_layouts layouts = {0};
    const struct process process = {.pid = PID, .mappings = NULL};
    (void)state;
    assert_int_equal(interpreter_hotspot.layout(x, &process, &layouts), -ENOENT);
    assert_false(interpreter_hotspot.walks_code(x, &process));
    assert_false(interpreter_hotspot.is_evaluator("JavaCalls::call_helper"));
    interpreter_hotspot.free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_match_hotspots_perf_map),
        cmocka_unit_test(test_invalid_parts_are_omitted),
        cmocka_unit_test(test_truncated_names_are_marked),
        cmocka_unit_test(test_line_of_a_bytecode),
        cmocka_unit_test(test_line_table_without_its_end),
        cmocka_unit_test(test_entry_has_the_line_of_its_bytecode),
        cmocka_unit_test(test_method_key_includes_process_and_check),
        cmocka_unit_test(test_least_recently_used_method_is_evicted_and_requested_again),
        cmocka_unit_test(test_no_layout_without_memory_access),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
