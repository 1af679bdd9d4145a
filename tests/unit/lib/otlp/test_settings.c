/* OTEL_EXPORTER_OTLP_...: the protocol of each signal, and the endpoint that results from the variables. */
#include "otlp/settings.h"
#include "otlp/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void expect(enum otlp_signal signal, const char *protocol, const char *own, const char *all,
                   enum otlp_protocol expected, const char *endpoint)
{
    struct otlp_settings s;
    set("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
    set(signal == OTLP_SIGNAL_METRICS ? "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" : "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT",
        own);
    set("OTEL_EXPORTER_OTLP_ENDPOINT", all);
    assert_int_equal(otlp_settings_read(&s, signal), 0);
    assert_int_equal(s.protocol, expected);
    assert_string_equal(s.endpoint, endpoint);
    otlp_settings_free(&s);
}

static void test_endpoints(void **state)
{
    (void)state;
    clearenv();
    expect(OTLP_SIGNAL_PROFILES, NULL, NULL, "http://a:4318", OTLP_HTTP_PROTOBUF,
           "http://a:4318/v1development/profiles");
    expect(OTLP_SIGNAL_PROFILES, "http/json", NULL, "http://a", OTLP_HTTP_PROTOBUF, "http://a/v1development/profiles");
    expect(OTLP_SIGNAL_PROFILES, "grpc", NULL, "http://a:4317", OTLP_GRPC, "http://a:4317");
    expect(OTLP_SIGNAL_PROFILES, "GRPC", NULL, "http://a:4317/", OTLP_GRPC, "http://a:4317/");
    expect(OTLP_SIGNAL_PROFILES, "grpc", "http://b", "http://a:4317", OTLP_GRPC, "http://b");
    expect(OTLP_SIGNAL_PROFILES, "grpc", NULL, NULL, OTLP_GRPC, "");
    expect(OTLP_SIGNAL_PROFILES, "grpc", NULL, "a:4317", OTLP_GRPC, "https://a:4317");
    setenv("OTEL_EXPORTER_OTLP_INSECURE", "True", 1);
    expect(OTLP_SIGNAL_PROFILES, "grpc", NULL, "a:4317", OTLP_GRPC, "http://a:4317");
    expect(OTLP_SIGNAL_PROFILES, "grpc", NULL, "https://a", OTLP_GRPC, "https://a");
    setenv("OTEL_EXPORTER_OTLP_PROFILES_INSECURE", "false", 1);
    expect(OTLP_SIGNAL_PROFILES, "grpc", NULL, "a:4317", OTLP_GRPC, "https://a:4317");
    expect(OTLP_SIGNAL_PROFILES, "http/protobuf", "a:4317", NULL, OTLP_HTTP_PROTOBUF,
           "a:4317"); /* not a URL of HTTP: the sender reports it */
    expect(OTLP_SIGNAL_METRICS, NULL, NULL, "http://a", OTLP_HTTP_JSON, "");
    expect(OTLP_SIGNAL_METRICS, "http/protobuf", "http://b/x", "http://a", OTLP_HTTP_PROTOBUF, "http://b/x");
    expect(OTLP_SIGNAL_METRICS, "grpc", "http://b", "http://a", OTLP_GRPC, "http://b");
    setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf", 1);
    expect(OTLP_SIGNAL_METRICS, "grpc", "http://b", "http://a", OTLP_HTTP_PROTOBUF, "http://b");
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const without[] = {"http://a", "http://a:1/", "http://[::1]:4317", "a:4317", "", "http://u:p@a"};
    static const char *const with[] = {"http://a/b", "http://a//", "http://a?b",
                                       "http://a/#", "a/b",        "https://a/v1/traces"};
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++)
        assert_false(otlp_url_has_path(without[i]));
    for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++)
        assert_true(otlp_url_has_path(with[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_endpoints), cmocka_unit_test(test_paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
