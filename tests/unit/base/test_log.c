/* log.c and clock.c: lines on standard error, and clocks that agree with each other. */
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static int memory = -1, real_stderr = -1;

static void catch_stderr(void)
{
    memory = memfd_create("stderr", MFD_CLOEXEC);
    real_stderr = dup(STDERR_FILENO);
    assert_true(memory >= 0 && real_stderr >= 0);
    dup2(memory, STDERR_FILENO);
}

/* Everything written since catch_stderr(), which this undoes. */
static void expect_stderr(const char *expected)
{
    char text[4096] = "";
    fflush(stderr);
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    assert_true(pread(memory, text, sizeof(text) - 1, 0) >= 0);
    close(memory);
    assert_string_equal(text, expected);
}

static void test_message_format(void **state)
{
    (void)state;
    catch_stderr();
    log_error("cannot do %d", 7);
    log_warning("odd");
    log_info("said");
    log_debug("not said");
    int r = log_errno(-ENOENT, "cannot open %s", "x");
    expect_stderr(
        "sonde: error: cannot do 7\nsonde: warning: odd\nsonde: said\nsonde: error: cannot open x: No such file or directory\n");
    assert_int_equal(r, -ENOENT);
}

static void test_level_filters_messages(void **state)
{
    (void)state;
    catch_stderr();
    log_set_level(LOG_LEVEL_ERROR);
    log_warning("not said");
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("said");
    log_set_level(LOG_LEVEL_INFO);
    expect_stderr("sonde: debug: said\n");
}

static void test_control_characters_are_escaped(void **state)
{
    (void)state;
    catch_stderr();
    log_info("process %s", "a\nsonde: error: b\x1b[2J\x7f \xc3\xa9");
    expect_stderr("sonde: process a?sonde: error: b?[2J? \xc3\xa9\n");
}

static void test_long_message_is_truncated(void **state)
{
    (void)state;
    char name[3000], expected[1100];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(expected, sizeof(expected), "sonde: %.1023s\n", name);
    catch_stderr();
    log_info("%s", name);
    expect_stderr(expected);
}

static void test_clock_conversion(void **state)
{
    (void)state;
    uint64_t a = clock_monotonic_ns(), b = clock_monotonic_ns();
    assert_true(a > 0 && a <= b);
    /* The same distance on both clocks, except for the time between the two readings. */
    uint64_t early = clock_unix_from_monotonic(b), late = clock_unix_from_monotonic(b + 5000000000u);
    assert_true(late - early > 4000000000u && late - early < 60000000000u);
    assert_true(clock_unix_ns() > 1500000000000000000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_format),
        cmocka_unit_test(test_level_filters_messages),
        cmocka_unit_test(test_control_characters_are_escaped),
        cmocka_unit_test(test_long_message_is_truncated),
        cmocka_unit_test(test_clock_conversion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
