/* Uevents of CPUs that went offline. */
#include "sources/attach/cpu_changes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int parse(const char *text, unsigned *ret)
{
    return cpu_changes_parse(text, strlen(text) + 1, ret);
}

static void test_offline_uevent_names_the_cpu(void **state)
{
    unsigned cpu = 99;

    (void)state;
    assert_int_equal(parse("offline@/devices/system/cpu/cpu0", &cpu), 0);
    assert_int_equal(cpu, 0);
    assert_int_equal(parse("offline@/devices/system/cpu/cpu191", &cpu), 0);
    assert_int_equal(cpu, 191);
    assert_int_equal(cpu_changes_parse("offline@/devices/system/cpu/cpu12", 32, &cpu), 0); /* truncated */
    assert_int_equal(cpu, 1);
}

static void test_other_uevents_are_ignored(void **state)
{
    static const char *const others[] = {
        "",
        "offline@/devices/system/cpu/cpu",
        "offline@/devices/system/cpu/cpufreq",
        "offline@/devices/system/cpu/cpu1x",
        "offline@/devices/system/cpu/cpu8192",
        "offline@/devices/system/cpu/cpu99999999999999999999",
        "online@/devices/system/cpu/cpu1",
        "offline@/devices/system/memory/memory1",
    };
    unsigned cpu = 99;

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(parse(others[i], &cpu), -ENOENT);
    assert_int_equal(cpu, 99);
}

static void test_no_uevents(void **state)
{
    struct cpu_list gone;
    int fd = cpu_changes_open();

    (void)state;
    if (fd < 0) {
        print_message("skipped: no notices here: %s\n", strerror(-fd));
        skip();
    }
    cpu_changes_take(fd, &gone);
    for (unsigned cpu = 0; cpu < CPU_LIST_MAX; cpu++)
        assert_false(cpu_list_has(&gone, cpu));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offline_uevent_names_the_cpu),
        cmocka_unit_test(test_other_uevents_are_ignored),
        cmocka_unit_test(test_no_uevents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
