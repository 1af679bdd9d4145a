/* Moments in text, and refusal of everything else. */
#include "base/rfc3339.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_moments(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
        const char *written;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00.000000000Z"},
        {"2026-11-30T18:28:18.570126972Z", 1796063298570126972, "2026-11-30T18:28:18.570126972Z"},
        {"2026-11-30t18:28:18z", 1796063298000000000, "2026-11-30T18:28:18.000000000Z"},
        {"2026-11-30T18:28:18.5+01:00", 1796059698500000000, "2026-11-30T17:28:18.500000000Z"},
        {"2026-11-30T18:28:18-00:30", 1796065098000000000, "2026-11-30T18:58:18.000000000Z"},
        {"2024-02-29T00:00:00Z", 1709164800000000000, "2024-02-29T00:00:00.000000000Z"},
        {"2099-12-31T23:59:59.999999999Z", 4102444799999999999, "2099-12-31T23:59:59.999999999Z"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[RFC3339_BYTES];
        uint64_t ns;
        assert_int_equal(rfc3339_parse_ns(cases[i].text, &ns), 0);
        assert_int_equal(ns, cases[i].ns);
        assert_string_equal(rfc3339_format_ns(ns, out), cases[i].written);
    }
}

static void test_other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "now",
        "1796063298",
        "2026-11-30",
        "2026-11-30 18:28:18Z",
        "2026-11-30T18:28:18",
        "2026-11-30T18:28Z",
        "2026-11-30T18:28:18.Z",
        "2026-11-30T18:28:18.1234567891Z",
        "2026-11-30T18:28:18 01:00",
        "2026-11-30T18:28:18+0100",
        "2026-11-30T18:28:18+24:00",
        "2026-11-30T18:28:18Z ",
        " 2026-11-30T18:28:18Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-11-31T00:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T23:60:00Z",
        "2026-11-30T23:59:60Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+00:01",
        "2100-01-01T00:00:00Z",
        "99999-01-01T00:00:00Z",
        "2026-11-30T18:28:18Z' OR 1",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t ns = 7;
        assert_int_equal(rfc3339_parse_ns(texts[i], &ns), -EINVAL);
        assert_int_equal(ns, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
