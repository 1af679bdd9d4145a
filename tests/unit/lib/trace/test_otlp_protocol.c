/* Which protocol traces and metrics use, from the environment and the URL. */
#include "fixture.h"
#include "transport.h"

struct sent {
    char url[64], rpc[96];
    char first; /* first byte of the last post; '{' begins JSON */
    int posts;
};

static struct sent sent[2]; /* traces, metrics */

static int keep_open(const struct otlp_transport_options *o, void **ret_connection, char *why, size_t why_size)
{
    const char *what = o->rpc ? o->rpc : o->url;
    struct sent *s = &sent[strstr(what, "etrics") != NULL];
    (void)why, (void)why_size;
    snprintf(s->url, sizeof(s->url), "%s", o->url);
    snprintf(s->rpc, sizeof(s->rpc), "%s", o->rpc ? o->rpc : "");
    *ret_connection = s;
    return 0;
}

static int keep_post(void *connection, const void *data, size_t size, struct otlp_answer *ret_answer)
{
    struct sent *s = connection;
    s->first = size ? *(const char *)data : '\0';
    s->posts++;
    answer_with(ret_answer, 200);
    return 0;
}

static const struct otlp_transport keeping = {OTLP_TRANSPORT_VERSION, keep_open, keep_post, discard_close};

static void send_one_of_each(const char *url)
{
    struct fixture f = {0};
    char option[128], why[SONDE_TRACE_WHY_SIZE] = "";
    struct sonde_trace_config *config;
    struct sonde_trace_generation g;
    const struct sonde_trace_options options = {.size = sizeof(options), .on_error = fixture_on_error, .argument = &f};
    const char *const settings[] = {"mode=opentelemetry", "rate=1", "level=TIMESTAMPS", option};
    snprintf(option, sizeof(option), "opentelemetry,url=%s", url);
    memset(sent, 0, sizeof(sent));
    assert_int_equal(sonde_trace_config_new(&config), 0);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        assert_int_equal(sonde_trace_config_set(config, "--trace-config", settings[i], NULL, 0), 0);
    assert_int_equal(trace_manager_new(config, &options, &keeping, &f.manager, why, sizeof(why)), 0);
    sonde_trace_config_free(config);
    assert_int_equal(sonde_trace_model_new(f.manager, "m", 1, &f.model), 0);
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    assert_non_null(t);
    sonde_trace_generation_begin(&g, f.model, t, "chat");
    sonde_trace_generation_tokens(&g, 1);
    sonde_trace_generation_end(&g, NULL);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    sonde_trace_model_free(f.model);
    sonde_trace_manager_free(f.manager);
    assert_int_equal(f.errors, 0);
    assert_true(sent[0].posts >= 1 && sent[1].posts >= 1);
}

#define TRACES  "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
#define METRICS "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

/* Only a URL without a path can be for gRPC: an HTTP URL stays HTTP, whatever signal the variable is for. */
static void test_url_overrides_the_protocol(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *protocol, *metrics, *url; /* `metrics`: an endpoint of their own */
        struct sent traces, of_metrics;
    } all[] = {
        {"OTEL_EXPORTER_OTLP_PROTOCOL",
         "grpc",
         NULL,
         "http://r:4317",
         {"http://r:4317", TRACES},
         {"http://r:4317", METRICS}},
        {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
         "grpc",
         NULL,
         "https://r:4317/",
         {"https://r:4317/", TRACES},
         {"https://r:4317/", METRICS}},
        {"OTEL_EXPORTER_OTLP_PROTOCOL",
         "grpc",
         "http://m:4317",
         "http://r/v1/traces",
         {"http://r/v1/traces", "", '{'},
         {"http://m:4317", METRICS}},
        {"OTEL_EXPORTER_OTLP_PROTOCOL",
         "grpc",
         NULL,
         "http://r/v1/traces",
         {"http://r/v1/traces", "", '{'},
         {"http://r/v1/metrics", "", '{'}},
        {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
         "grpc",
         NULL,
         "http://r/v1/traces",
         {"http://r/v1/traces", "", '{'},
         {"http://r/v1/metrics", "", '{'}},
        {"OTEL_EXPORTER_OTLP_PROTOCOL",
         "http/protobuf",
         NULL,
         "http://r/v1/traces",
         {"http://r/v1/traces", ""},
         {"http://r/v1/metrics", ""}},
        {"OTEL_EXPORTER_OTLP_PROTOCOL",
         "http/json",
         NULL,
         "http://r/v1/traces",
         {"http://r/v1/traces", "", '{'},
         {"http://r/v1/metrics", "", '{'}},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        setenv(all[i].variable, all[i].protocol, 1);
        if (all[i].metrics)
            setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", all[i].metrics, 1);
        send_one_of_each(all[i].url);
        for (int k = 0; k < 2; k++) {
            const struct sent *expected = k ? &all[i].of_metrics : &all[i].traces;
            assert_string_equal(sent[k].url, expected->url);
            assert_string_equal(sent[k].rpc, expected->rpc);
            assert_int_equal(sent[k].first == '{', expected->first == '{');
        }
        unsetenv(all[i].variable);
        unsetenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_url_overrides_the_protocol)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
