/* Configuration: every error names file, line, key and allowed values; an invalid file changes nothing. */
#include "config/config.h"

#include "base/cleanup.h"

#include <errno.h>
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

static void test_valid_file_is_loaded(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "";
    config_defaults(&c);
    assert_int_equal(
        load_text(
            &c,
            "# ours\nprofile:\n  rate: 49\nbudget:\n  one_cpu: 2.5%\n  memory: 128MiB\npage:\n  listen: \"[::1]:80\"\n",
            error),
        0);
    assert_int_equal(c.profile_rate_hz, 49);
    assert_true(c.budget_one_cpu_share > 0.0249 && c.budget_one_cpu_share < 0.0251);
    assert_int_equal(c.budget_memory_bytes, 128 << 20);
    assert_string_equal(c.page_listen, "[::1]:80");
    assert_true(config_bool(&c, "requests.enabled")); /* untouched */
    const char *hosts = "sonde.example.org, localhost:8080, 10.0.0.1, [::1]:8080";
    char text[128];
    snprintf(text, sizeof(text), "page:\n  allowed_hosts: \"%s\"\n", hosts);
    assert_int_equal(load_text(&c, text, error), 0);
    assert_string_equal(c.page_allowed_hosts, hosts);
    assert_int_equal(load_text(&c, "", error), 0);
    assert_int_equal(c.profile_rate_hz, 49);
}

static void test_invalid_files_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line, *expected[3];
    } cases[] = {
        {"profile:\n  rate: fast\n", ":2:", {"profile.rate", "'fast'", "0 to 1000"}},
        {"profile:\n  rate: -1\n", ":2:", {"profile.rate", "'-1'", "0 to 1000"}},
        {"budget:\n  one_cpu: 1\n", ":2:", {"budget.one_cpu", "'1'", "such as 5%"}},
        {"budget:\n  one_cpu: -1%\n", ":2:", {"budget.one_cpu", "'-1%'", "%"}},
        {"budget:\n  memory: 64 parsecs\n", ":2:", {"budget.memory", "'64 parsecs'", "64MiB"}},
        {"budget:\n  memory: 1MiB\n", ":2:", {"budget.memory", "'1MiB'", "at least 48MiB"}},
        {"\nbudget:\n  cups: 1%\n", ":3:", {"unknown key 'budget.cups'", "budget.one_cpu", "budget.memory"}},
        {"\nbugdet: {cpu: 1%}\n",
         ":2:",
         {"unknown section or key 'bugdet'", "the nearest key is budget.", "--print-config"}},
        {"bugdet:\n\n  cpu: 1%\n",
         ":1:",
         {"unknown section or key 'bugdet'", "the nearest key is budget.", "--print-config"}},
        {"rate: 19\n", ":1:", {"unknown section or key 'rate'", "the nearest key is profile.rate.", ""}},
        {"budget:\n  cpu: 1\n", ":2:", {"budget.cpu", "'1'", "share of one CPU"}},
        {"budget:\n  cpu: 1%\n  one_cpu: 1%\n", ":3:", {"budget.one_cpu", "twice", ""}},
        {"budget:\n  one_cpu: 1%\n  one_cpu: 2%\n", ":3:", {"budget.one_cpu", "twice", ""}},
        {"budget: [1, 2]\n", ":1:", {"lists", "", ""}},
        {"page:\n  listen: 7070\n", ":2:", {"page.listen", "'7070'", "127.0.0.1:7070"}},
        {"page:\n  listen: 127.0.0.1:70700\n", ":2:", {"page.listen", "'127.0.0.1:70700'", "ADDRESS:PORT"}},
        {"page:\n  listen: example.org:80\n", ":2:", {"page.listen", "'example.org:80'", "ADDRESS:PORT"}},
        {"page:\n  allowed_hosts: http://sonde.example.org\n",
         ":2:",
         {"page.allowed_hosts", "'http://sonde.example.org'", "localhost:8080"}},
        {"page:\n  allowed_hosts: a.example, *.example\n",
         ":2:",
         {"page.allowed_hosts", "'*.example'", "separated by commas"}},
        {"page:\n  allowed_hosts: a.example:70700\n", ":2:", {"page.allowed_hosts", "'a.example:70700'", ""}},
        {"page:\n  allowed_hosts: \"::1\"\n", ":2:", {"page.allowed_hosts", "'::1'", "[::1]"}},
        {"page:\n  allowed_hosts: \"[::1\"\n", ":2:", {"page.allowed_hosts", "'[::1'", "[::1]"}},
        {"page:\n  allowed_hosts: \"a.example,,b.example\"\n", ":2:", {"page.allowed_hosts", "''", ""}},
        {"kubernetes:\n  pod_labels: app,two words\n",
         ":2:",
         {"kubernetes.pod_labels", "'app,two words'", "app.kubernetes.io/name"}},
        {"kubernetes:\n  pod_labels: app,\n", ":2:", {"kubernetes.pod_labels", "'app,'", ""}},
        {"page:\n  allowed_hosts: two words\n", ":2:", {"page.allowed_hosts", "'two words'", ""}},
        {"profile:\n  rate: 19\n  sampling_rules: command=a:99, comand=b:0\n",
         ":3:",
         {"profile.sampling_rules", "'comand=b:0'", "separated by commas"}},
        {"profile:\n  sampling_rules: user=a:1001\n",
         ":2:",
         {"profile.sampling_rules", "'user=a:1001'", "0 to 1000 Hz"}},
        {"profile:\n  sampling_rules: user=a:1, pod=shop/web/1:9\n",
         ":2:",
         {"profile.sampling_rules", "'shop/web/1'", "pod-label"}},
        {"profile:\n  sampling_rules: pod-label=app:9\n", ":2:", {"profile.sampling_rules", "'app'", "pod-label"}},
        {"profile:\n  sampling_rules: pod-label=a b=c:9\n", ":2:", {"profile.sampling_rules", "'a b=c'", "pod-label"}},
        {"profile:\n  sampling_rules: user=a:1,, user=b:1\n", ":2:", {"profile.sampling_rules", "''", ""}},
        {"log:\n  level: info, warning\n", ":2:", {"log.level", "debug", ""}},
        {"log:\n  level: error, warning\n", ":2:", {"log.level", "debug", ""}},
        {"log:\n  level: nfo\n", ":2:", {"log.level", "'nfo'", "info"}},
        {"requests:\n  enabled: yes\n", ":2:", {"requests.enabled", "'yes'", "true or false"}},
        {"just words\n", ":1:", {"sections", "", ""}},
        {"budget:\n  one_cpu: {deep: 1}\n", ":2:", {"one level", "", ""}},
        {"budget:\n\tone_cpu: 1%\n", ":2:", {"not YAML", "", ""}},
        {"a: &x 1\nb: *x\n", ":1:", {"unknown section or key 'a'", "", ""}},
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

static void test_missing_file_is_an_error(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "";
    config_defaults(&c);
    assert_int_equal(config_load(&c, "/nowhere/sonde.yaml", error), -2);
    assert_non_null(strstr(error, "/nowhere/sonde.yaml"));
}

static void test_set_option(void **state)
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

/* The output of --print-config is a valid configuration file. */
static void test_printed_config_can_be_loaded(void **state)
{
    (void)state;
    struct config c, again;
    struct config_key_description d;
    char error[CONFIG_ERROR_BYTES];
    config_defaults(&c);
    c.profile_rate_hz = 7;
    c.budget_one_cpu_share = 0.025;
    assert_int_equal(config_set(&c, "profile.sampling_rules=command=ml: server #1:99, user=backup:0", error), 0);
    config_defaults(&again);
    size_t count = 0;
    for (; config_describe(&c, count, &d); count++) {
        char assignment[sizeof(d.value) + 64];
        snprintf(assignment, sizeof(assignment), "%s=%s", d.key, d.value);
        if (config_set(&again, assignment, error) < 0)
            fail_msg("%s", error);
    }
    assert_true(count >= 8);
    assert_int_equal(again.profile_rate_hz, 7);
    assert_string_equal(again.profile_sampling_rules, "command=ml: server #1:99, user=backup:0");
    assert_true(again.budget_one_cpu_share > 0.0249 && again.budget_one_cpu_share < 0.0251);
}

static void test_a_duration_is_described_exactly(void **state)
{
    (void)state;
    static const char *const durations[] = {"500us", "2ms", "1500us", "10000ms"};
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        struct config c;
        struct config_key_description d = {0};
        char error[CONFIG_ERROR_BYTES], assignment[64];
        config_defaults(&c);
        snprintf(assignment, sizeof(assignment), "io.slow=%s", durations[i]);
        assert_int_equal(config_set(&c, assignment, error), 0);
        for (size_t key = 0; config_describe(&c, key, &d) && strcmp(d.key, "io.slow") != 0; key++)
            ;
        assert_string_equal(d.value, durations[i]);
    }
}

static void test_receiver_settings(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "";
    config_defaults(&c);
    assert_int_equal(
        load_text(
            &c,
            "otlp:\n  profiles_endpoint: https://me:word@collector:4318/p?k=word\n  headers: \"a=b%20c,d=e\"\n  compression: none\n  interval: 3\n",
            error),
        0);
    assert_string_equal(c.otlp_profiles_endpoint, "https://me:word@collector:4318/p?k=word");
    assert_string_equal(c.otlp_headers, "a=b%20c,d=e");
    assert_int_equal(c.otlp_interval_s, 3);
    struct config_key_description d;
    size_t shown = 0;
    for (size_t i = 0; config_describe(&c, i, &d); i++) {
        assert_null(strstr(d.value, "word"));
        assert_int_equal(d.is_cut, strcmp(d.key, "otlp.profiles_endpoint") == 0 || strcmp(d.key, "otlp.headers") == 0);
        shown += strcmp(d.value, "https://collector:4318/p") == 0 || strcmp(d.value, "(not shown)") == 0;
    }
    assert_int_equal(shown, 2);
    static const char *const bad[] = {
        "otlp.profiles_endpoint=collector:4318/word",
        "otlp.profiles_endpoint=ftp://word",
        "otlp.profiles_endpoint=http:///word",
        "otlp.profiles_endpoint=http://a b/word",
        "otlp.profiles_endpoint=http://word:99999",
        "otlp.profiles_endpoint=http://a:word",
        "otlp.metrics_endpoint=collector:4318/word",
        "otlp.headers=a=\nword",
        "otlp.headers=(not shown)",
        "otlp.compression=zip",
        "otlp.interval=0",
        "otlp.metrics_interval=301",
        "otlp.timeout=0",
        "otlp.timestamp_resolution=2ms",
        "otlp.timestamp_resolution=",
        "otlp.system_names=no",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(config_set(&c, bad[i], error), -EINVAL);
        assert_null(strstr(error, "word"));
        assert_non_null(strstr(error, "allowed: "));
    }
    assert_int_equal(config_set(&c, "otlp.profiles_endpoint=", error), 0);
    assert_string_equal(c.otlp_profiles_endpoint, "");
}

static void expect_unknown(const char *set, const char *end)
{
    struct config c;
    char error[CONFIG_ERROR_BYTES] = "";
    config_defaults(&c);
    assert_int_equal(config_set(&c, set, error), -EINVAL);
    const size_t size = strlen(error), end_size = strlen(end);
    assert_true(size >= end_size);
    assert_string_equal(error + size - end_size, end);
}

static void test_unknown_key_error_says_what_is_probably_meant(void **state)
{
    (void)state;
    static const char hint[] = ". `sonde up --config /dev/null --print-config` lists all keys";
    static const char *const nearest[][2] = {{"bugdet.memory=1", "budget.memory"},
                                             {"bugdet.one_cpus=1", "budget.one_cpu"},
                                             {"Page.listen=1", "page.listen"},
                                             {"logs.level=1", "log.level"}};
    char end[256];
    expect_unknown("log.levels=info", ": unknown key 'log.levels'; keys of this section: log.level");
    expect_unknown("page.tls_cert=/a", ", page.open, page.allowed_hosts");
    for (size_t i = 0; i < array_size(nearest); i++) {
        snprintf(end, sizeof(end), "; the nearest key is %s%s", nearest[i][1], hint);
        expect_unknown(nearest[i][0], end);
    }
}

static void test_otlp_packet_settings(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        uint64_t step_ns;
    } resolutions[] = {{"exact", 0}, {"1ms", 1 << 20}, {"17ms", 1 << 24}, {"1s", 1 << 30}};
    struct config c;
    char error[CONFIG_ERROR_BYTES], set[64];
    uint64_t step_ns = 0;
    config_defaults(&c);
    assert_true(config_timestamp_step(&c, &step_ns));
    assert_int_equal(step_ns, 1 << 20);
    assert_true(c.otlp_system_names);
    for (size_t i = 0; i < sizeof(resolutions) / sizeof(resolutions[0]); i++) {
        snprintf(set, sizeof(set), "otlp.timestamp_resolution=%s", resolutions[i].set);
        assert_int_equal(config_set(&c, set, error), 0);
        assert_true(config_timestamp_step(&c, &step_ns));
        assert_int_equal(step_ns, resolutions[i].step_ns);
    }
    assert_int_equal(
        load_text(&c, "otlp:\n  timestamp_resolution: none\n  system_names: false\n  compression: zstd\n", error), 0);
    assert_false(config_timestamp_step(&c, &step_ns));
    assert_false(c.otlp_system_names);
    assert_string_equal(c.otlp_compression, "zstd");
}

/* Sets the endpoint variables and asserts the resulting `endpoint` of the configuration. */
static void expect_endpoint(const char *signal, const char *all, const char *expected, bool complains)
{
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    config_defaults(&c);
    signal ? setenv("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", signal, 1)
           : unsetenv("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT");
    all ? setenv("OTEL_EXPORTER_OTLP_ENDPOINT", all, 1) : unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    config_environment(&c, error);
    assert_string_equal(c.otlp_profiles_endpoint, expected);
    assert_int_equal(error[0] != '\0', complains);
}

static void test_endpoint_from_environment(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    expect_endpoint(NULL, NULL, "", false);
    expect_endpoint("", "", "", false);
    expect_endpoint(NULL, "http://a:4318", "http://a:4318/v1development/profiles", false);
    expect_endpoint(NULL, "http://a:4318//", "http://a:4318/v1development/profiles", false);
    expect_endpoint("", "http://a/b?c", "http://a/b/v1development/profiles?c", false);
    expect_endpoint("http://b/", "http://a:4318", "http://b/", false);
    expect_endpoint(NULL, "a:4317", "", true);
    expect_endpoint(NULL, "http://$(NODE_IP):4318", "", true); /* Kubernetes leaves unknown variables unexpanded */
    expect_endpoint(NULL, "http://host:port", "", true);
    expect_endpoint("http://collector:99999", "http://a:4318", "", true);
    setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", 1);
    expect_endpoint(NULL, "http://a:4317", "http://a:4317", false); /* no path is added for it */
    expect_endpoint(NULL, "a:4317", "https://a:4317", false);
    expect_endpoint(NULL, "http://a:4318/v1development/profiles", "", true);
    expect_endpoint(NULL, NULL, "", false);
    config_defaults(&c);
    config_environment(&c, error);
    assert_false(config_is_grpc(&c)); /* the protocol applies only together with the endpoint's variables */
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317", 1);
    config_environment(&c, error);
    assert_true(config_is_grpc(&c));
    assert_int_equal(config_set(&c, "otlp.profiles_endpoint=http://b:4318/v1development/profiles", error), 0);
    assert_false(config_is_grpc(&c));
    assert_int_equal(config_set(&c, "otlp.protocol=grpc", error), 0);
    assert_int_equal(config_set(&c, "otlp.profiles_endpoint=http://b:4317", error), 0);
    assert_true(config_is_grpc(&c));
    assert_int_equal(config_set(&c, "otlp.protocol=http/json", error), -EINVAL);
    setenv("OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL", "http/protobuf", 1);
    setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=b", 1);
    setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none", 1);
    setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1500", 1);
    setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/k", 1);
    expect_endpoint(NULL, "http://a", "http://a/v1development/profiles", false);
    config_defaults(&c);
    config_environment(&c, error);
    assert_string_equal(c.otlp_headers, "a=b");
    assert_string_equal(c.otlp_compression, "none");
    assert_string_equal(c.otlp_client_key, "/k");
    assert_int_equal(c.otlp_timeout_ms, 1500);
    setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", 1);
    config_environment(&c, error);
    assert_int_equal(c.otlp_timeout_ms, 10000);
}

static void test_endpoints_of_all_signals_from_environment(void **state)
{
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    (void)state;
    clearenv();
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/", 1);
    setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:4318/own", 1);
    setenv("OTEL_METRICS_EXPORTER", "otlp", 1);
    config_defaults(&c);
    config_environment(&c, error);
    assert_string_equal(error, "");
    assert_string_equal(c.otlp_profiles_endpoint, "http://a:4318/v1development/profiles");
    assert_string_equal(c.otlp_metrics_endpoint, "http://a:4318/v1/metrics");
    assert_string_equal(c.otlp_traces_endpoint, "http://b:4318/own");
    assert_string_equal(c.otlp_logs_endpoint, "http://a:4318/v1/logs");
    setenv("OTEL_METRICS_EXPORTER", "none", 1);
    unsetenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://c:4318/own", 1);
    config_defaults(&c);
    config_environment(&c, error);
    assert_string_equal(c.otlp_metrics_endpoint, "");
    assert_string_equal(c.otlp_traces_endpoint, "http://a:4318/v1/traces");
    assert_string_equal(c.otlp_logs_endpoint, "http://c:4318/own");
    assert_int_equal(load_text(&c, "otlp:\n  traces_endpoint: http://file/t\n  logs_endpoint: http://file/l\n", error),
                     0);
    assert_int_equal(config_set(&c, "otlp.profiles_endpoint=", error), 0);
    assert_string_equal(c.otlp_traces_endpoint, "http://file/t");
    assert_string_equal(c.otlp_logs_endpoint, "http://file/l");
    assert_string_equal(c.otlp_profiles_endpoint, "");
}

static void test_resource_from_environment(void **state)
{
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    (void)state;
    clearenv();
    setenv("OTEL_RESOURCE_ATTRIBUTES", "team=a%20b,service.name=x", 1);
    setenv("OTEL_SERVICE_NAME", "agents", 1);
    config_defaults(&c);
    config_environment(&c, error);
    assert_string_equal(error, "");
    assert_string_equal(c.otlp_resource_attributes, "service.name=agents,team=a%20b,service.name=x");
    assert_int_equal(config_set(&c, "otlp.resource_attributes=team=file", error), 0);
    assert_string_equal(c.otlp_resource_attributes, "team=file");
    assert_int_equal(config_set(&c, "otlp.resource_attributes=team", error), -EINVAL);
    setenv("OTEL_RESOURCE_ATTRIBUTES", "team", 1);
    config_defaults(&c);
    config_environment(&c, error);
    assert_non_null(strstr(error, "OTEL_RESOURCE_ATTRIBUTES: "));
    assert_string_equal(c.otlp_resource_attributes, "");
}

/* One set of headers serves all signals: a signal with its own is left out. */
static void test_signal_with_headers_of_its_own_is_not_exported(void **state)
{
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    (void)state;
    clearenv();
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318", 1);
    setenv("OTEL_EXPORTER_OTLP_HEADERS", "k=v", 1);
    setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "k=v", 1);
    setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "k=other", 1);
    setenv("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "k=v", 1);
    config_defaults(&c);
    config_environment(&c, error);
    assert_non_null(strstr(error, "OTEL_EXPORTER_OTLP_TRACES_HEADERS: "));
    assert_null(strstr(error, "other"));
    assert_string_equal(c.otlp_traces_endpoint, "");
    assert_string_equal(c.otlp_metrics_endpoint, "http://a:4318/v1/metrics");
    assert_string_equal(c.otlp_logs_endpoint, "http://a:4318/v1/logs");
    assert_string_equal(c.otlp_headers, "k=v");
}

static void inherit(struct config *c)
{
    char error[CONFIG_ERROR_BYTES];
    config_defaults(c);
    config_environment(c, error);
    assert_string_equal(error, "");
    assert_string_equal(c->otlp_certificate, "/ca");
}

/* Secret headers for one receiver are not sent to another. */
static void test_headers_are_not_sent_to_another_endpoint(void **state)
{
    (void)state;
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    clearenv();
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a", 1);
    setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=word", 1);
    setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca", 1);
    setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/c", 1);
    setenv("OTEL_EXPORTER_OTLP_PROFILES_CLIENT_KEY", "/k", 1);
    inherit(&c);
    assert_int_equal(load_text(&c, "otlp:\n  interval: 3\n", error), 0);
    assert_string_equal(c.otlp_headers, "authorization=word");
    assert_string_equal(c.otlp_client_certificate, "/c");
    assert_string_equal(c.otlp_client_key, "/k");
    assert_int_equal(load_text(&c, "otlp:\n  client_key: /own\n  profiles_endpoint: http://b/p\n", error), 0);
    assert_string_equal(c.otlp_headers, "");
    assert_string_equal(c.otlp_client_certificate, "");
    assert_string_equal(c.otlp_client_key, "/own");
    assert_string_equal(c.otlp_certificate, "/ca"); /* trusted CAs belong to this machine, whatever the receiver */
    inherit(&c);
    assert_int_equal(config_set(&c, "otlp.captures_endpoint=http://b/p", error), 0);
    assert_string_equal(c.otlp_headers, "");
    inherit(&c);
    assert_int_equal(config_set(&c, "otlp.profiles_endpoint=http://b/p", error), 0);
    assert_int_equal(config_set(&c, "otlp.headers=a=own", error), 0);
    assert_int_equal(config_set(&c, "otlp.profiles_endpoint=http://c/p", error), 0);
    assert_string_equal(c.otlp_headers, "a=own");
    assert_string_equal(c.otlp_client_key, "");
    inherit(&c);
    assert_int_equal(config_set(&c, "otlp.metrics_endpoint=http://b/m", error), 0);
    assert_string_equal(c.otlp_headers, "");
    assert_string_equal(c.otlp_profiles_endpoint, "http://a/v1development/profiles");
    unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    inherit(&c);
    assert_string_equal(c.otlp_headers, "");
    assert_string_equal(c.otlp_client_key, "");
}

static void expect_error(const char *says, const char *variable, const char *value)
{
    struct config c;
    char error[CONFIG_ERROR_BYTES];
    setenv(variable, value, 1);
    config_defaults(&c);
    config_environment(&c, error);
    if (*says ? !strstr(error, says) : *error)
        fail_msg("%s: error is '%s', not '%s'", variable, error, says);
    assert_string_equal(c.otlp_headers, "");
    unsetenv(variable);
}

/* A message names the invalid variable and the problem; unused variables are not checked. */
static void test_invalid_environment_is_an_error(void **state)
{
    (void)state;
    char long_headers[4097] = "a=";
    memset(long_headers + 2, 'b', sizeof(long_headers) - 3);
    clearenv();
    expect_error("", "OTEL_EXPORTER_OTLP_HEADERS", "a=\n");
    expect_error("", "OTEL_EXPORTER_OTLP_HEADERS", long_headers);
    expect_error("", "OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL", "grpc");
    expect_error("OTEL_EXPORTER_OTLP_ENDPOINT: ", "OTEL_EXPORTER_OTLP_ENDPOINT", "a:4317");
    expect_error("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT: ", "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "a:4317");
    setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a", 1);
    expect_error("OTEL_EXPORTER_OTLP_HEADERS: ", "OTEL_EXPORTER_OTLP_HEADERS", "a=\n");
    expect_error("OTEL_EXPORTER_OTLP_HEADERS: otlp.headers: 4096 bytes are too many; allowed: 4095",
                 "OTEL_EXPORTER_OTLP_HEADERS", long_headers);
    expect_error("OTEL_EXPORTER_OTLP_PROFILES_CLIENT_KEY: ", "OTEL_EXPORTER_OTLP_PROFILES_CLIENT_KEY", "/\n");
    setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", 1);
    expect_error("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT: a URL of gRPC has no path",
                 "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "http://a/v1development/profiles");
}

/* The only key that differs; NULL: none. Fails if several do. */
static const char *find_difference(const struct config *a, const struct config *b)
{
    const char *found = NULL, *key;
    bool is_same;
    for (size_t i = 0; config_compare(a, b, i, &key, &is_same); i++)
        if (!is_same) {
            assert_null(found);
            found = key;
        }
    return found;
}

static void test_each_changed_key_is_found_secrets_included(void **state)
{
    static const char *const changes[] = {"page.listen=none",    "page.socket_mode=0666", "otlp.headers=key=secret",
                                          "io.slow=3ms",         "off_cpu.enabled=true",  "budget.one_cpu=77%",
                                          "budget.memory=99MiB", "log.level=error"};
    struct config before, after;
    char error[CONFIG_ERROR_BYTES];
    (void)state;
    config_defaults(&before);
    config_defaults(&after);
    assert_null(find_difference(&before, &after));
    for (size_t i = 0; i < array_size(changes); i++) {
        config_defaults(&after);
        assert_int_equal(config_set(&after, changes[i], error), 0);
        const char *key = find_difference(&before, &after);
        if (!key || strncmp(key, changes[i], strlen(key)) != 0 || changes[i][strlen(key)] != '=')
            fail_msg("%s: found %s", changes[i], key ? key : "nothing");
    }
    /* bytes of an earlier, longer text after the end are no difference */
    config_defaults(&after);
    assert_int_equal(config_set(&after, "page.listen=192.168.100.100:17070", error), 0);
    assert_int_equal(config_set(&after, "page.listen=127.0.0.1:7070", error), 0);
    assert_null(find_difference(&before, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_file_is_loaded),
        cmocka_unit_test(test_a_duration_is_described_exactly),
        cmocka_unit_test(test_receiver_settings),
        cmocka_unit_test(test_otlp_packet_settings),
        cmocka_unit_test(test_unknown_key_error_says_what_is_probably_meant),
        cmocka_unit_test(test_endpoint_from_environment),
        cmocka_unit_test(test_endpoints_of_all_signals_from_environment),
        cmocka_unit_test(test_resource_from_environment),
        cmocka_unit_test(test_signal_with_headers_of_its_own_is_not_exported),
        cmocka_unit_test(test_headers_are_not_sent_to_another_endpoint),
        cmocka_unit_test(test_invalid_environment_is_an_error),
        cmocka_unit_test(test_invalid_files_change_nothing),
        cmocka_unit_test(test_missing_file_is_an_error),
        cmocka_unit_test(test_set_option),
        cmocka_unit_test(test_printed_config_can_be_loaded),
        cmocka_unit_test(test_each_changed_key_is_found_secrets_included),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
