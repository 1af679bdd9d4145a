/* Configuration: every error names file, line, key and what is allowed; a bad file changes nothing. */
#include "agent/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int load_text(struct config *c, const char *text, char *error)
{
    char path[] = "/tmp/test-config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int r = config_load(c, path, error);
    unlink(path);
    return r;
}

static void test_good_file(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "";
    config_defaults(&c);
    assert_int_equal(load_text(&c, "# ours\nprofile:\n  rate: 49\nbudget:\n  cpu: 2.5%\n  memory: 128MiB\npage:\n  listen: \"[::1]:80\"\n", error), 0);
    assert_int_equal(c.profile_rate_hz, 49);
    assert_true(c.budget_cpu_share > 0.0249 && c.budget_cpu_share < 0.0251);
    assert_int_equal(c.budget_memory_bytes, 128 << 20);
    assert_string_equal(c.page_listen, "[::1]:80");
    assert_true(c.requests_enabled); /* untouched */
    assert_int_equal(load_text(&c, "", error), 0);
    assert_int_equal(c.profile_rate_hz, 49);
}

static void test_bad_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line, *expected[3];
    } cases[] = {
        {"profile:\n  rate: fast\n", ":2:", {"profile.rate", "'fast'", "1 to 1000"}},
        {"profile:\n  rate: 0\n", ":2:", {"profile.rate", "'0'", "1 to 1000"}},
        {"budget:\n  cpu: 1\n", ":2:", {"budget.cpu", "'1'", "such as 1%"}},
        {"budget:\n  cpu: -1%\n", ":2:", {"budget.cpu", "'-1%'", "%"}},
        {"budget:\n  memory: 64 parsecs\n", ":2:", {"budget.memory", "'64 parsecs'", "64MiB"}},
        {"budget:\n  memory: 1MiB\n", ":2:", {"budget.memory", "'1MiB'", "at least 48MiB"}},
        {"\nbudget:\n  cups: 1%\n", ":3:", {"unknown key 'budget.cups'", "budget.cpu", "budget.memory"}},
        {"bugdet:\n  cpu: 1%\n", ":1:", {"unknown section 'bugdet'", "budget.cpu", "page.listen"}},
        {"rate: 19\n", ":1:", {"unknown key 'rate'", "profile.rate", ""}},
        {"budget:\n  cpu: 1%\n  cpu: 2%\n", ":3:", {"budget.cpu", "twice", ""}},
        {"budget: [1, 2]\n", ":1:", {"lists", "", ""}},
        {"page:\n  listen: 7070\n", ":2:", {"page.listen", "'7070'", "127.0.0.1:7070"}},
        {"page:\n  listen: 127.0.0.1:70700\n", ":2:", {"page.listen", "'127.0.0.1:70700'", "ADDRESS:PORT"}},
        {"page:\n  listen: example.org:80\n", ":2:", {"page.listen", "'example.org:80'", "ADDRESS:PORT"}},
        {"log:\n  level: info, warning\n", ":2:", {"log.level", "debug", ""}},
        {"log:\n  level: error, warning\n", ":2:", {"log.level", "debug", ""}},
        {"log:\n  level: nfo\n", ":2:", {"log.level", "'nfo'", "info"}},
        {"requests:\n  enabled: yes\n", ":2:", {"requests.enabled", "'yes'", "true or false"}},
        {"just words\n", ":1:", {"sections", "", ""}},
        {"budget:\n  cpu: {deep: 1}\n", ":2:", {"one level", "", ""}},
        {"budget:\n\tcpu: 1%\n", ":2:", {"not YAML", "", ""}},
        {"a: &x 1\nb: *x\n", ":1:", {"unknown key 'a'", "", ""}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config c, before;
        char error[CONFIG_ERROR_BYTES] = "";
        config_defaults(&c);
        before = c;
        if (load_text(&c, cases[i].text, error) >= 0)
            fail_msg("accepted: %s", cases[i].text);
        if (!strstr(error, cases[i].line))
            fail_msg("no line %s in: %s", cases[i].line, error);
        for (int k = 0; k < 3; k++)
            if (!strstr(error, cases[i].expected[k]))
                fail_msg("no '%s' in: %s", cases[i].expected[k], error);
        assert_memory_equal(&c, &before, sizeof(c));
    }
}

static void test_missing_file(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "";
    config_defaults(&c);
    assert_int_equal(config_load(&c, "/nowhere/sonde.yaml", error), -2);
    assert_non_null(strstr(error, "/nowhere/sonde.yaml"));
}

static void test_set(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "";
    config_defaults(&c);
    assert_int_equal(config_set(&c, "profile.rate=99", error), 0);
    assert_int_equal(c.profile_rate_hz, 99);
    assert_true(config_set(&c, "profile.rate", error) < 0);
    assert_non_null(strstr(error, "KEY=VALUE"));
    assert_true(config_set(&c, "profile.rate=1e3", error) < 0);
    assert_int_equal(c.profile_rate_hz, 99);
}

/* What --print-config prints is what a file may say. */
static void test_description_can_be_loaded(void **state)
{
    (void)state;
    struct config c, again;
    struct config_key_description d;
    char error[CONFIG_ERROR_BYTES];
    config_defaults(&c);
    c.profile_rate_hz = 7;
    c.budget_cpu_share = 0.025;
    config_defaults(&again);
    size_t count = 0;
    for (; config_describe(&c, count, &d); count++) {
        char assignment[640];
        snprintf(assignment, sizeof(assignment), "%s=%s", d.key, d.value);
        if (config_set(&again, assignment, error) < 0)
            fail_msg("%s", error);
    }
    assert_true(count >= 8);
    assert_int_equal(again.profile_rate_hz, 7);
    assert_true(again.budget_cpu_share > 0.0249 && again.budget_cpu_share < 0.0251);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_file), cmocka_unit_test(test_bad_files), cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_set),       cmocka_unit_test(test_description_can_be_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
