/* What a configuration must fulfil as a whole. */
#include "config/config_check.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The result for the defaults with these settings; NULL ends them. */
static int check_with(struct config *c, char error[CONFIG_ERROR_BYTES], const char *const *settings)
{
    error[0] = '\0';
    config_defaults(c);
    for (; *settings; settings++)
        assert_int_equal(config_set(c, *settings, error), 0);
    return config_check(c, error);
}

#define CHECK(...) check_with(&c, error, (const char *const[]){__VA_ARGS__, NULL})

static void test_clients_of_other_machines_need_a_token_or_leave(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    assert_int_equal(CHECK("page.listen=127.0.0.1:7070"), 0);
    assert_int_equal(CHECK("page.listen=[::1]:7070"), 0);
    assert_int_equal(CHECK("page.listen=none"), 0);
    assert_int_equal(CHECK("page.listen=0.0.0.0:7070"), -EINVAL);
    assert_non_null(strstr(error, "everybody whose machine reaches 0.0.0.0:7070"));
    assert_int_equal(config_check_access(&c, error), -EINVAL);
    assert_int_equal(CHECK("page.listen=0.0.0.0:7070", "page.token_file=/etc/sonde/tokens"), 0);
    assert_int_equal(CHECK("page.listen=0.0.0.0:7070", "page.open=true"), 0);
}

static void test_tls_needs_both_files(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    assert_int_equal(CHECK("page.tls_key=/k"), -EINVAL);
    assert_string_equal(error, "page.tls_key is set without page.tls_certificate: TLS needs both");
    assert_int_equal(CHECK("page.tls_certificate=/c"), -EINVAL);
    assert_string_equal(error, "page.tls_certificate is set without page.tls_key: TLS needs both");
    assert_int_equal(CHECK("page.tls_certificate=/c", "page.tls_key=/k"), 0);
}

static void test_rates_of_zero_disable_cpu_profiles_unless_rules_ask_for_samples(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    assert_int_equal(CHECK("profile.rate=0"), 0);
    assert_false(config_bool(&c, "profile.enabled"));
    assert_int_equal(CHECK("profile.rate=0", "profile.sampling_rules=command=often:9"), 0);
    assert_true(config_bool(&c, "profile.enabled"));
    assert_int_equal(CHECK("profile.rate=0", "profile.sampling_rules=command=often:0"), -EINVAL);
    assert_non_null(strstr(error, "all sampling rates are 0"));
}

static void test_pod_labels_of_rules_and_samples_share_a_limit(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES], labels[256] = "kubernetes.pod_labels=", rules[256] = "profile.sampling_rules=";
    for (int i = 0; i < 10; i++) {
        const char *comma = i ? "," : "";
        snprintf(labels + strlen(labels), sizeof(labels) - strlen(labels), "%sa%d", comma, i);
        snprintf(rules + strlen(rules), sizeof(rules) - strlen(rules), "%spod-label=b%d=x:9", comma, i);
    }
    assert_int_equal(CHECK(labels), 0);
    assert_int_equal(CHECK(rules), 0);
    assert_int_equal(CHECK(labels, rules), -EINVAL);
    assert_non_null(strstr(error, "pod labels together"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_of_other_machines_need_a_token_or_leave),
        cmocka_unit_test(test_tls_needs_both_files),
        cmocka_unit_test(test_rates_of_zero_disable_cpu_profiles_unless_rules_ask_for_samples),
        cmocka_unit_test(test_pod_labels_of_rules_and_samples_share_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
