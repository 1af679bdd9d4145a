/* What an interpreter runs, by its arguments. */
#include "base/script_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* `words`: separated by single spaces. */
static void expect(const char *words, const char *expected)
{
    char out[32];
    const size_t size = strlen(words) + 1;
    char *arguments = strdup(words); /* of its very size: more may not be read */
    assert_non_null(arguments);
    for (char *c = arguments; *c; c++)
        if (*c == ' ')
            *c = '\0';
    script_name(arguments, size, out, sizeof(out));
    assert_string_equal(out, expected);
    free(arguments);
}

static void test_scripts_and_modules(void **state)
{
    (void)state;
    expect("/usr/bin/python3.11 -u -W ignore /srv/jobs/journal.py --fast", "journal.py");
    expect("python3 -m http.server 8000", "-m http.server");
    expect("node --max-old-space-size=512 -r dotenv/config server.js", "server.js");
    expect("java -Xmx1g -cp /a:/b org.shop.Main --port 1", "Main");
    expect("java -jar /opt/app.jar", "app.jar");
    expect("perl /usr/bin/backup daily", "backup");
    expect("bash ./nightly.sh", "nightly.sh");
}

static void test_no_script(void **state)
{
    (void)state;
    expect("python3", "");
    expect("python3 -c print(1)", "");
    expect("sh -c make", "");
    expect("bash -l", "");
    expect("python3 -", "");
    expect("pythonista script.py", "");
    expect("/usr/sbin/nginx -g daemon", "");
    expect("", "");
}

static void test_what_is_long_or_cut_off(void **state)
{
    (void)state;
    char out[8];
    script_name("python3\0/a/very_long_name.py", 29, out, sizeof(out));
    assert_string_equal(out, "very_lo");
    script_name("python3\0/srv/half", 13, out, sizeof(out)); /* "/srv/" */
    assert_string_equal(out, "");
    script_name("python3\0/srv/", 14, out, sizeof(out));
    assert_string_equal(out, "/srv/");
    script_name(NULL, 0, out, sizeof(out));
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scripts_and_modules),
        cmocka_unit_test(test_no_script),
        cmocka_unit_test(test_what_is_long_or_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
