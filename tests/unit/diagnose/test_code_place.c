/* Which function of a stack is the user's own, by language; and the words for it. */
#include "diagnose/code/code_place.h"
#include "diagnose/code/code_tally.h"
#include "diagnose/code/stack_text.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct frame native(const char *function, const char *mapping)
{
    return (struct frame){.kind = FRAME_NATIVE, .function = function, .mapping = mapping, .file = ""};
}

static struct frame code(enum frame_kind kind, const char *function, const char *file, uint32_t line)
{
    return (struct frame){.kind = kind, .function = function, .file = file, .line = line, .mapping = ""};
}

static struct frame python(const char *function, const char *file, uint32_t line)
{
    return code(FRAME_INTERPRETED, function, file, line);
}

static void expect_place(const struct frame *frames, size_t count, const char *expected)
{
    struct code_place place;
    char text[CODE_TEXT_BYTES];
    code_place_of(frames, count, &place);
    assert_string_equal(code_place_text(&place, text), expected);
}

#define EXPECT(expected, ...)                                                                                          \
    do {                                                                                                               \
        const struct frame frames[] = {__VA_ARGS__};                                                                   \
        expect_place(frames, array_size(frames), expected);                                                            \
    } while (0)

static void test_python(void **state)
{
    (void)state;
    EXPECT("handle_x() app.py:31, running siphash13", native("siphash13", "/usr/bin/python3.11"),
           native("_Py_HashBytes", "/usr/bin/python3.11"), python("handle_x", "/srv/shop/app.py", 31),
           python("run", "/srv/venv/lib/python3.11/site-packages/starlette/routing.py", 7));
    EXPECT("handle_x() app.py:31, running JSONEncoder.encode",
           native("_PyEval_EvalFrameDefault", "/usr/bin/python3.11"),
           python("JSONEncoder.encode", "/usr/lib/python3.11/json/encoder.py", 202),
           python("dumps", "/usr/lib/python3.11/json/__init__.py", 231), python("handle_x", "app.py", 31));
    EXPECT("Shop.sell() __init__.py:5", python("Shop.sell", "/srv/lib/python/shop/__init__.py", 5));
    EXPECT("<module> <string>:1", python("<module>", "<string>", 1));
    EXPECT("sell() _fast.c:9, running memcpy", native("memcpy", "/lib/x86_64-linux-gnu/libc.so.6"),
           (struct frame){.kind = FRAME_NATIVE,
                          .function = "sell",
                          .file = "/src/_fast.c",
                          .line = 9,
                          .mapping = "/srv/shop/_fast.cpython-311-x86_64-linux-gnu.so"},
           python("handle_x", "/srv/shop/app.py", 31));
}

/* The code that started an event loop or a thread is not the code that it runs. */
static void test_callers_of_a_dispatcher_are_not_shown(void **state)
{
    (void)state;
    EXPECT("epoll_wait < EpollSelector.select < BaseEventLoop._run_once",
           native("epoll_wait", "/lib/x86_64-linux-gnu/libc.so.6"),
           python("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 468),
           python("BaseEventLoop._run_once", "/usr/lib/python3.11/asyncio/base_events.py", 1884),
           python("main", "/srv/shop/app.py", 80));
    EXPECT("_find_spec < serve", python("_find_spec", "<frozen importlib._bootstrap>", 1),
           python("serve", "/srv/venv/bin/uvicorn", 8));
}

static void test_javascript(void **state)
{
    (void)state;
    EXPECT("sell() shop.js:4, running JSON.stringify", native("Builtins_Call", "/usr/bin/node"),
           code(FRAME_V8JS, "JSON.stringify", "", 0), code(FRAME_V8JS, "log", "node:console", 9),
           code(FRAME_V8JS, "send", "/srv/shop/node_modules/express/lib/response.js", 113),
           code(FRAME_V8JS, "sell", "/srv/shop/shop.js", 4), code(FRAME_V8JS, "emit", "node:events", 513));
    struct frame first = code(FRAME_V8JS, "sell", "/srv/shop/shop.js", 4);
    first.is_first_line = true;
    EXPECT("sell() (begins at shop.js:4), running JSON.stringify", code(FRAME_V8JS, "JSON.stringify", "", 0), first);
    first.line = 0;
    EXPECT("sell() shop.js", first);
}

static void test_java(void **state)
{
    (void)state;
    EXPECT("com.example.Shop.sell() Shop.java, running StubRoutines (1)", code(FRAME_JVM, "StubRoutines (1)", "", 0),
           code(FRAME_JVM, "I2C/C2I adapters", "", 0),
           code(FRAME_JVM, "int com.example.Shop.sell(long, java.lang.String)", "Shop.java", 0));
    EXPECT("com.example.Shop.sell() Shop.java, running java.util.HashMap$Node[] java.util.HashMap.resize()",
           code(FRAME_JVM, "java.util.HashMap$Node[] java.util.HashMap.resize()", "HashMap.java", 0),
           code(FRAME_JVM, "int com.example.Shop.sell(long, java.lang.String)", "Shop.java", 0),
           code(FRAME_JVM, "void org.springframework.web.Servlet.service()", "Servlet.java", 0));
}

static void test_native_programs(void **state)
{
    static const char program[] = "/srv/shop/shop", libc[] = "/lib/x86_64-linux-gnu/libc.so.6";
    (void)state;
    EXPECT("sell(), running memcpy", native("memcpy", libc), native("sell.constprop.0", program),
           native("main", program));
    EXPECT("shop::sell(), running void std::sort<int*>(int*, int*)",
           native("void std::sort<int*>(int*, int*)", program), native("shop::sell(int, long)", program));
    EXPECT("main.(*Shop).sell(), running runtime.mallocgc", native("runtime.mallocgc", program),
           native("encoding/json.Marshal", program), native("main.(*Shop).sell", program),
           native("net/http.(*conn).serve", program));
    EXPECT("<shop::Shop>::sell(), running alloc::vec::push", native("alloc::vec::push", program),
           native("<shop::Shop>::sell", program));
    EXPECT("epoll_wait", native("epoll_wait", libc));
    EXPECT("", code(FRAME_TRUNCATED, "reason", "", 0));
}

static void test_garbage_collectors_are_named(void **state)
{
    (void)state;
    EXPECT("garbage collection: VM_GenCollectFull::doit", native("mark", "/usr/lib/jvm/libjvm.so"),
           native("VM_GenCollectFull::doit", "/usr/lib/jvm/libjvm.so"));
    EXPECT("sell() app.py:3, running garbage collection: gc_collect_main",
           native("visit_reachable", "/usr/bin/python3.11"), native("gc_collect_main", "/usr/bin/python3.11"),
           python("sell", "/srv/shop/app.py", 3));
}

static void test_long_and_foreign_names(void **state)
{
    struct code_place place;
    const struct frame frames[] = {python("a\033[1m_function_of_" /* 64 bytes and more: */
                                          "0123456789012345678901234567890123456789_the_end",
                                          "/srv/\n.py", 1)};
    (void)state;
    code_place_of(frames, 1, &place);
    assert_string_equal(place.file, "?.py");
    assert_null(strchr(place.function, '\033'));
    assert_true(strlen(place.function) < CODE_FUNCTION_BYTES);
    assert_non_null(strstr(place.function, "_the_end()"));
}

/* The user's function comes first where its line is known. */
static void test_text_of_a_wait(void **state)
{
    char text[256] = "";
    const struct frame frames[] = {native("clock_nanosleep", "/lib/x86_64-linux-gnu/libc.so.6"),
                                   native("time_sleep", "/usr/bin/python3.11"), python("nap", "/srv/shop/app.py", 12),
                                   python("handle", "/srv/shop/app.py", 31)};
    (void)state;
    stack_text_append_user(frames, array_size(frames), text, sizeof(text));
    assert_string_equal(text, " in nap() app.py:12, calling clock_nanosleep");
}

static void expect_caller(const char *where, const char *detail, const char *expected)
{
    _cleanup_buf_ struct buf out = {0};
    stack_text_put_caller(&out, where, detail);
    assert_string_equal(out.size ? out.data : "", expected);
}

/* The system call stands before its caller already. */
static void test_caller_of_a_wait(void **state)
{
    (void)state;
    expect_caller(" in nap() app.py:12, calling clock_nanosleep", "clock_nanosleep in thread 7 pool",
                  "nap() app.py:12");
    expect_caller(" in nap() app.c:12, calling clock_nanosleep < sleep_ms", "clock_nanosleep",
                  "nap() app.c:12, calling sleep_ms");
    expect_caller(" in nap() app.c:12, calling nanosleep", "clock_nanosleep", "nap() app.c:12, calling nanosleep");
    expect_caller(" in nap() app.py:12, calling clock_nanosleep", "held by thread 7: the holder slept",
                  "nap() app.py:12, calling clock_nanosleep");
    expect_caller(" in epoll_wait < Selector.select < run", "epoll_wait: until a timer expired",
                  "Selector.select < run");
    expect_caller(" in epoll_wait2 < run", "epoll_wait", "epoll_wait2 < run");
    expect_caller(" in clock_nanosleep", "clock_nanosleep", "");
    expect_caller("", "clock_nanosleep", "");
    expect_caller(" in nap() app.py:12", "", "nap() app.py:12");
}

static void add(struct code_tally *t, const char *function, uint32_t line, const char *runs)
{
    struct code_place p = {.line = line};
    memcpy(p.function, function, strlen(function) + 1);
    memcpy(p.runs, runs, strlen(runs) + 1);
    code_tally_add(t, &p);
}

static void test_tally_counts_functions_then_lines_then_what_ran(void **state)
{
    struct code_tally t;
    struct code_place place;
    (void)state;
    code_tally_begin(&t);
    assert_int_equal(code_tally_most(&t, &place), 0);
    add(&t, "a()", 1, "x");
    add(&t, "a()", 1, "x");
    add(&t, "a()", 1, "x");
    add(&t, "b()", 1, "x");
    add(&t, "b()", 2, "x");
    add(&t, "b()", 2, "y");
    add(&t, "b()", 2, "y");
    assert_int_equal(code_tally_most(&t, &place), 4);
    assert_string_equal(place.function, "b()");
    assert_int_equal(place.line, 2);
    assert_string_equal(place.runs, "y");
    assert_int_equal(t.samples, 7);
}

/* The line of native code is known some time after its function. */
static void test_known_line_is_preferred(void **state)
{
    struct code_tally t;
    struct code_place place;
    (void)state;
    code_tally_begin(&t);
    for (int i = 0; i < 5; i++)
        add(&t, "a()", 0, "x");
    code_tally_add(&t, &(struct code_place){.function = "a()", .file = "a.c", .line = 7, .runs = "y"});
    add(&t, "b()", 3, "x");
    assert_int_equal(code_tally_most(&t, &place), 6);
    assert_string_equal(place.file, "a.c");
    assert_int_equal(place.line, 7);
    assert_string_equal(place.runs, "y");
}

static void test_full_tally_counts_functions(void **state)
{
    struct code_tally t;
    struct code_place place;
    (void)state;
    code_tally_begin(&t);
    for (uint32_t line = 1; line <= 3 * CODE_TALLY_PLACES; line++)
        add(&t, "a()", line, "");
    assert_int_equal(t.samples, 3 * CODE_TALLY_PLACES);
    assert_int_equal(code_tally_most(&t, &place), 3 * CODE_TALLY_PLACES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python),
        cmocka_unit_test(test_callers_of_a_dispatcher_are_not_shown),
        cmocka_unit_test(test_javascript),
        cmocka_unit_test(test_java),
        cmocka_unit_test(test_native_programs),
        cmocka_unit_test(test_garbage_collectors_are_named),
        cmocka_unit_test(test_long_and_foreign_names),
        cmocka_unit_test(test_text_of_a_wait),
        cmocka_unit_test(test_caller_of_a_wait),
        cmocka_unit_test(test_tally_counts_functions_then_lines_then_what_ran),
        cmocka_unit_test(test_known_line_is_preferred),
        cmocka_unit_test(test_full_tally_counts_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
