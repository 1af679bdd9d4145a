/* Generations of tokens: file contents, spans and metric packets, also of untraced requests, in a child, and without
 * memory. */
#include "fixture.h"
#include "metrics_receiver.h"
#include "transport.h"

#include "../../allocations.h"

#include <errno.h>
#include <sys/wait.h>
#include <time.h>

static void generate(struct fixture *f, struct sonde_trace *t, int tokens,
                     const struct sonde_trace_generation_result *result)
{
    struct sonde_trace_generation g;
    sonde_trace_generation_begin(&g, f->model, t, "chat");
    for (int i = 0; i < tokens; i++)
        sonde_trace_generation_tokens(&g, 1);
    sonde_trace_generation_end(&g, result);
}

static struct trace_histogram histogram_of(struct fixture *f, enum trace_metric metric)
{
    struct trace_metrics_snapshot s;
    struct trace_histogram all = {0};
    assert_int_equal(trace_metrics_read(&f->manager->metrics, &s), 0);
    for (size_t i = 0; i < s.count; i++) {
        all.count += s.series[i].histograms[metric].count;
        all.sum += s.series[i].histograms[metric].sum;
    }
    free(s.series);
    return all;
}

/* --- files ----------------------------------------------------------------------------------- */

/* Replaces each time by N, for comparison. */
static void hide_times(char *text)
{
    for (char *p = text; (p = strstr(p, "\"ns\":"));) {
        p += strlen("\"ns\":");
        size_t digits = strspn(p, "0123456789");
        *p = 'N';
        memmove(p + 1, p + digits, strlen(p + digits) + 1);
    }
}

static void test_file_contents(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_generation g;
    const struct sonde_trace_generation_result result = {.size = sizeof(result),
                                                         .input_tokens = 7,
                                                         .output_tokens = -1,
                                                         .response_id = "id \"1\"",
                                                         .response_model = "m-v2",
                                                         .finish_reason = "stop"};
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    uint64_t id = sonde_trace_id(t);
    sonde_trace_timestamp(t, SONDE_TRACE_HTTP_RECV_START);
    sonde_trace_generation_begin(&g, f.model, t, NULL);
    sonde_trace_generation_tokens(&g, 0);
    sonde_trace_generation_tokens(&g, 1);
    sonde_trace_generation_tokens(&g, 3);
    sonde_trace_generation_end(&g, &result);
    sonde_trace_generation_end(&g, &result); /* one too many does nothing */
    sonde_trace_generation_tokens(&g, 1);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    char *text = fixture_read(&f, ""), expected[1024], *p = expected;
    assert_non_null(text);
    hide_times(text);
#define PUT(...) p += snprintf(p, (size_t)(expected + sizeof(expected) - p), __VA_ARGS__)
    PUT("[{\"id\":%lu,\"timestamps\":[{\"name\":\"HTTP_RECV_START\",\"ns\":N}]}", (unsigned long)id);
    PUT(",{\"id\":%lu,\"model_name\":\"m\",\"model_version\":1,\"generation\":{\"operation\":"
        "\"text_completion\",\"input_tokens\":7,\"output_tokens\":4,\"response_id\":\"id \\\"1\\\"\","
        "\"response_model\":\"m-v2\",\"finish_reason\":\"stop\"}}",
        (unsigned long)id);
    PUT(",{\"id\":%lu,\"timestamps\":[{\"name\":\"GENERATION_START\",\"ns\":N}]}", (unsigned long)id);
    PUT(",{\"id\":%lu,\"timestamps\":[{\"name\":\"FIRST_TOKEN\",\"ns\":N,\"tokens\":1}]}", (unsigned long)id);
    PUT(",{\"id\":%lu,\"timestamps\":[{\"name\":\"TOKEN\",\"ns\":N,\"tokens\":3}]}", (unsigned long)id);
    PUT(",{\"id\":%lu,\"timestamps\":[{\"name\":\"GENERATION_END\",\"ns\":N}]}]", (unsigned long)id);
    assert_string_equal(text, expected);
    free(text);
    fixture_close(&f);
}

/* A converter must not take the file for another provider's. */
static void test_file_names_its_own_provider(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open_with(&f, (struct sonde_trace_options){.provider = "mine \"1\""},
                      (const char *const[]){"rate=1", "level=TIMESTAMPS", NULL});
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    generate(&f, t, 1, NULL);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    char *text = fixture_read(&f, "");
    assert_non_null(text);
    assert_non_null(strstr(text, "\"generation\":{\"operation\":\"chat\",\"provider\":\"mine \\\"1\\\"\","));
    free(text);
    fixture_close(&f);
}

/* request_bytes_max also bounds tokens; tokens that do not fit are counted, and the metrics include all of them. */
static void test_endless_answer_is_bounded(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open_with(&f, (struct sonde_trace_options){.request_bytes_max = 65536},
                      (const char *const[]){"rate=1", "level=TIMESTAMPS", NULL});
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    generate(&f, t, 100000, NULL);
    assert_true(atomic_load(&t->tree->bytes) <= 65536);
    assert_in_range(fixture_stats(&f).records_dropped, 90000, 100002);
    assert_int_equal(t->generation ? t->generation->output_tokens : 100000, 100000);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(histogram_of(&f, TRACE_TIME_PER_OUTPUT_TOKEN).count, 1);
    fixture_close(&f);
}

/* Not counted; and the last reference to the manager is dropped (AddressSanitizer detects a leak). */
static void test_dropped_generation_is_not_counted(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_generation g;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    unsigned before = atomic_load(&f.manager->refs);
    sonde_trace_generation_begin(&g, f.model, NULL, "chat");
    sonde_trace_generation_tokens(&g, 1);
    assert_int_equal(atomic_load(&f.manager->refs), before + 1);
    sonde_trace_generation_drop(&g);
    sonde_trace_generation_drop(&g);
    sonde_trace_generation_end(&g, NULL);
    assert_int_equal(atomic_load(&f.manager->refs), before);
    assert_int_equal(histogram_of(&f, TRACE_REQUEST_DURATION).count, 0);
    fixture_close(&f);
}

/* --- metrics --------------------------------------------------------------------------------- */

static void test_every_generation_counts(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_generation g;
    const struct sonde_trace_generation_result failed = {
        .size = sizeof(failed), .input_tokens = -1, .output_tokens = -1, .error_type = "timeout"};
    const struct sonde_trace_generation_result short_one = {.size = sizeof(size_t), .error_type = "not read"};
    fixture_open(&f, "level=OFF");
    generate(&f, NULL, 3, NULL);
    generate(&f, NULL, 1, NULL); /* no token after the first */
    generate(&f, NULL, 0, NULL); /* none at all */
    generate(&f, NULL, 3, &failed);
    generate(&f, NULL, 2, &short_one);                    /* from a server compiled against a shorter struct */
    sonde_trace_generation_begin(&g, NULL, NULL, "chat"); /* a server without tracing */
    sonde_trace_generation_tokens(&g, 1);
    sonde_trace_generation_end(&g, NULL);
    assert_int_equal(fixture_stats(&f).generations, 5);
    assert_int_equal(histogram_of(&f, TRACE_REQUEST_DURATION).count, 5);
    assert_int_equal(histogram_of(&f, TRACE_TIME_TO_FIRST_TOKEN).count, 3);
    assert_int_equal(histogram_of(&f, TRACE_TIME_PER_OUTPUT_TOKEN).count, 2);
    assert_int_equal(histogram_of(&f, TRACE_INPUT_TOKENS).count, 0);
    assert_int_equal(histogram_of(&f, TRACE_OUTPUT_TOKENS).count, 4); /* of an unknown model */
    assert_int_equal(histogram_of(&f, TRACE_OUTPUT_TOKENS).sum, 3 + 1 + 3 + 2);
    fixture_close(&f);
}

/* Against the test's own clock: a reported duration lies between a certain minimum and maximum. */
static void test_durations_match_the_clock(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_generation g;
    const struct timespec rest = {.tv_nsec = 3000000};
    uint64_t outside[4], inside[4];
    fixture_open(&f, "level=OFF");
    outside[0] = sonde_trace_now_ns();
    sonde_trace_generation_begin(&g, f.model, NULL, NULL);
    inside[0] = sonde_trace_now_ns();
    nanosleep(&rest, NULL);
    outside[1] = sonde_trace_now_ns();
    sonde_trace_generation_tokens(&g, 2);
    inside[1] = sonde_trace_now_ns();
    nanosleep(&rest, NULL);
    sonde_trace_generation_tokens(&g, 3);
    outside[2] = sonde_trace_now_ns();
    sonde_trace_generation_end(&g, NULL);
    inside[2] = sonde_trace_now_ns();
    assert_in_range(histogram_of(&f, TRACE_REQUEST_DURATION).sum, outside[2] - inside[0], inside[2] - outside[0]);
    assert_in_range(histogram_of(&f, TRACE_TIME_TO_FIRST_TOKEN).sum, outside[1] - inside[0], inside[1] - outside[0]);
    assert_in_range(histogram_of(&f, TRACE_TIME_PER_OUTPUT_TOKEN).sum, (outside[2] - inside[1]) / 4,
                    (inside[2] - outside[1]) / 4);
    fixture_close(&f);
}

/* The model's handle may be freed during the generation. */
static void test_a_generation_outlives_its_model(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_generation g;
    fixture_open(&f, "level=OFF");
    sonde_trace_generation_begin(&g, f.model, NULL, NULL);
    sonde_trace_model_free(f.model);
    sonde_trace_manager_free(f.manager);
    sonde_trace_generation_tokens(&g, 1);
    sonde_trace_generation_end(&g, NULL); /* frees the manager: checked by a sanitizer */
    f.model = NULL;
    f.manager = NULL;
    fixture_close(&f);
}

/* --- a receiver ------------------------------------------------------------------------------ */

static void otel_open(struct fixture *f, const char *url)
{
    char why[SONDE_TRACE_WHY_SIZE] = "", option[128];
    struct sonde_trace_config *config;
    const struct sonde_trace_options options = {
        .size = sizeof(options), .on_error = fixture_on_error, .argument = f, .provider = "tests"};
    *f = (struct fixture){0};
    free(receiver.last_metrics);
    memset(&receiver, 0, sizeof(receiver));
    snprintf(option, sizeof(option), "opentelemetry,url=%s", url);
    assert_int_equal(sonde_trace_config_new(&config), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "mode=opentelemetry", NULL, 0), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", option, NULL, 0), 0);
    assert_int_equal(trace_manager_new(config, &options, &keeping, &f->manager, why, sizeof(why)), 0);
    sonde_trace_config_free(config);
    assert_int_equal(sonde_trace_model_new(f->manager, "m", 1, &f->model), 0);
}

static void otel_close(struct fixture *f)
{
    sonde_trace_model_free(f->model);
    sonde_trace_manager_free(f->manager);
}

static void test_metrics_are_sent_on_flush_and_at_the_end(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, "http://r/v1/traces");
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    assert_int_equal(receiver.metrics, 0); /* without generations there is no thread, and no packet */
    generate(&f, NULL, 3, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* its thread has started, and has a minute */
    assert_int_equal(fixture_stats(&f).metrics_sent, 0);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    assert_int_equal(receiver.metrics, 1);
    assert_non_null(strstr(receiver.last_metrics, "\"stringValue\":\"tests\""));
    assert_non_null(strstr(receiver.last_metrics, "\"count\":\"1\""));
    generate(&f, NULL, 3, NULL);
    assert_int_equal(fixture_stats(&f).metrics_sent, 1);
    otel_close(&f);
    assert_int_equal(receiver.metrics, 2);
    assert_non_null(strstr(receiver.last_metrics, "\"count\":\"2\""));
    assert_int_equal(receiver.traces, 0);
}

/* Undelivered metrics are in the next packet. */
static void test_refused_metrics_are_sent_again(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, "http://r/v1/traces");
    receiver.answer = 400;
    for (int i = 0; i < 3; i++) {
        generate(&f, NULL, 3, NULL);
        assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    }
    assert_int_equal(fixture_stats(&f).metrics_lost, 3);
    assert_int_equal(fixture_stats(&f).metric_errors, 3);
    assert_int_equal(f.errors, 1);
    assert_string_equal(f.message, "OpenTelemetry receiver http://r/v1/metrics: metrics are not sent: HTTP status 400");
    receiver.answer = 200;
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    assert_int_equal(fixture_stats(&f).metrics_sent, 1);
    assert_non_null(strstr(receiver.last_metrics, "\"count\":\"3\""));
    otel_close(&f);
}

static void generate_of_kinds(struct fixture *f, int count)
{
    for (int i = 0; i < count; i++) {
        char reason[16];
        snprintf(reason, sizeof(reason), "r%d", i);
        generate(f, NULL, 1,
                 &(struct sonde_trace_generation_result){.size = sizeof(struct sonde_trace_generation_result),
                                                         .input_tokens = -1,
                                                         .output_tokens = -1,
                                                         .finish_reason = reason});
    }
}

/* 512 points are 102 series. A refused packet is followed by the next, and the error is reported once. */
static void test_many_series_are_split_into_packets(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, "http://r/v1/traces");
    generate_of_kinds(&f, 250);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    assert_int_equal(receiver.metrics, 3);
    assert_int_equal(fixture_stats(&f).metrics_sent, 3);
    receiver.answer = 413;
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    assert_int_equal(receiver.metrics, 6);
    assert_int_equal(fixture_stats(&f).metrics_lost, 3);
    assert_int_equal(f.errors, 1);
    receiver.answer = 200;
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    assert_int_equal(fixture_stats(&f).metrics_sent, 6);
    otel_close(&f);
}

/* Names may be as long as a model's: the bytes of a packet are also bounded. */
static void test_packet_bytes_are_bounded(void **state)
{
    (void)state;
    struct fixture f;
    char name[1025] = "";
    struct sonde_trace_model *model, *old;
    memset(name, '\x01', 1024); /* six bytes each in JSON */
    setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2048", 1);
    otel_open(&f, "http://r/v1/traces");
    assert_int_equal(sonde_trace_model_new(f.manager, name, 1, &model), 0);
    old = f.model;
    f.model = model;
    generate_of_kinds(&f, 300);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 60000), 0);
    assert_int_equal(receiver.metrics, 2); /* of 150 series; 300 would be above it */
    assert_in_range(receiver.largest_metrics, OTLP_PACKET_BYTES / 2, OTLP_PACKET_BYTES);
    unsetenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE");
    f.model = old;
    sonde_trace_model_free(model);
    otel_close(&f);
}

static void test_metrics_endpoint(void **state)
{
    (void)state;
    struct fixture f;
    otel_open(&f, "http://r/custom");
    generate(&f, NULL, 3, NULL);
    generate(&f, NULL, 3, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    assert_int_equal(f.errors, 1);
    assert_non_null(strstr(f.message, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"));
    otel_close(&f);
    assert_int_equal(receiver.metrics, 0);

    setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://r/v1/metrics", 1);
    otel_open(&f, "http://r/custom");
    generate(&f, NULL, 3, NULL);
    otel_close(&f);
    assert_int_equal(receiver.metrics, 1);

    setenv("OTEL_METRICS_EXPORTER", "none", 1);
    otel_open(&f, "http://r/v1/traces");
    generate(&f, NULL, 3, NULL);
    otel_close(&f);
    assert_int_equal(receiver.metrics + f.errors, 0);
    unsetenv("OTEL_METRICS_EXPORTER");
    unsetenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
}

/* An environment meant for another exporter does not stop a server: traces are sent, metrics are not, and that is
 * reported once. */
static void test_unusable_environment_is_reported_once(void **state)
{
    (void)state;
    static const struct {
        const char *endpoint, *protocol, *message;
    } all[] = {
        {"collector:4317", "http/protobuf",
         "OpenTelemetry receiver collector:4317: metrics are not sent: OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: bad"},
        {"http://user:secret@collector:4317/p", "grpc",
         "OpenTelemetry receiver http://collector:4317/p: metrics are not sent: "
         "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: a URL of gRPC has no path"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct fixture f;
        setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", all[i].endpoint, 1);
        setenv("OTEL_EXPORTER_OTLP_PROTOCOL", all[i].protocol, 1);
        otel_open(&f, "http://r/v1/traces");
        assert_int_equal(f.errors, 1);
        assert_string_equal(f.message, all[i].message);
        struct sonde_trace *t = sonde_trace_start(f.model, NULL);
        generate(&f, t, 3, NULL);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
        assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
        assert_int_equal(f.errors, 1);
        assert_int_equal(fixture_stats(&f).generations, 1);
        otel_close(&f);
        assert_int_equal(receiver.metrics, 0);
        unsetenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
    }
    /* without an endpoint for metrics alone, metrics go where traces go, whatever protocol other signals use */
    struct fixture f;
    setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", 1);
    otel_open(&f, "http://r/v1/traces");
    generate(&f, NULL, 3, NULL);
    otel_close(&f);
    assert_int_equal(receiver.metrics, 1);
    assert_int_equal(f.errors, 0);
    unsetenv("OTEL_EXPORTER_OTLP_PROTOCOL");
}

/* An invalid option given to this server is an error that names the option. */
static void test_invalid_metrics_option_is_an_error(void **state)
{
    (void)state;
    char why[SONDE_TRACE_WHY_SIZE] = "";
    struct sonde_trace_config *config;
    struct sonde_trace_manager *manager;
    assert_int_equal(sonde_trace_config_new(&config), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "mode=opentelemetry", NULL, 0), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "opentelemetry,url=grpc://c:4317", NULL, 0), 0);
    assert_int_equal(trace_manager_new(config, NULL, &keeping, &manager, why, sizeof(why)), -EINVAL);
    assert_string_equal(why, "Bad option: \"--trace-config opentelemetry,url\".\nbad: grpc://c:4317");
    sonde_trace_config_free(config);
}

static bool send_and_count(struct fixture *f, uint64_t generations)
{
    generate(f, NULL, 3, NULL);
    return sonde_trace_manager_flush(f->manager, 20000) == 0 && fixture_stats(f).generations == generations &&
           fixture_stats(f).metrics_sent == 1;
}

/* A child's counts start at its fork, under its own name; generations that the parent had begun stay with the parent.
 */
static void test_forked_child_has_its_own_counts(void **state)
{
    (void)state;
    fixture_need_threads_after_fork();
    struct fixture f;
    struct sonde_trace_generation g;
    int status = -1;
    otel_open(&f, "http://r/v1/traces");
    generate(&f, NULL, 3, NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    sonde_trace_generation_begin(&g, f.model, NULL, NULL);
    char parent[40];
    uint64_t start_ns = f.manager->metrics.start_unix_ns;
    memcpy(parent, f.manager->exporter.instance, sizeof(parent));
    pid_t pid = fork();
    if (pid == 0) {
        sonde_trace_generation_tokens(&g, 1);
        sonde_trace_generation_end(&g, NULL);
        bool good = send_and_count(&f, 1) && f.manager->metrics.start_unix_ns > start_ns &&
                    strlen(f.manager->exporter.instance) == 36 && strcmp(f.manager->exporter.instance, parent) != 0 &&
                    strstr(receiver.last_metrics, "\"count\":\"1\"");
        sonde_trace_model_free(f.model);
        sonde_trace_manager_free(f.manager);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    sonde_trace_generation_end(&g, NULL);
    assert_int_equal(fixture_stats(&f).generations, 2);
    otel_close(&f);
}

/* --- without memory -------------------------------------------------------------------------- */

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    const struct sonde_trace_generation_result result = {
        .size = sizeof(result), .input_tokens = 1, .output_tokens = 2, .finish_reason = "stop"};
    for (size_t n = 0;; n++) {
        struct fixture f;
        otel_open(&f, "http://r/v1/traces");
        allocations_fail_at(n);
        generate(&f, NULL, 3, &result);
        assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
        bool failed = allocations_failed;
        allocations_fail_at(SIZE_MAX);
        struct sonde_trace_stats s = fixture_stats(&f);
        assert_int_equal(s.generations, 1);
        assert_int_equal(s.metrics_sent + s.metrics_lost, 1);
        assert_int_equal(histogram_of(&f, TRACE_REQUEST_DURATION).count, 1);
        otel_close(&f);
        if (!failed) {
            assert_in_range(n, 3, 100);
            return;
        }
    }
}

#define THREADS  16
#define REQUESTS 300

static void *serve(void *argument)
{
    struct fixture *f = argument;
    for (int i = 0; i < REQUESTS; i++) {
        struct sonde_trace *t = sonde_trace_start(f->model, NULL);
        generate(f, t, i % 5, NULL);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
        if (i % 100 == 0)
            sonde_trace_manager_flush(f->manager, 20000);
    }
    return NULL;
}

static void test_many_threads_count_exactly(void **state)
{
    (void)state;
    struct fixture f;
    pthread_t threads[THREADS];
    setenv("OTEL_METRIC_EXPORT_INTERVAL", "1", 1);
    otel_open(&f, "http://r/v1/traces");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, serve, &f), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    assert_int_equal(fixture_stats(&f).generations, THREADS * REQUESTS);
    assert_true(last_metrics_say("\"count\":\"4800\""));
    assert_true(last_metrics_say("\"count\":\"3840\"")); /* four of five have tokens */
    otel_close(&f);
    unsetenv("OTEL_METRIC_EXPORT_INTERVAL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_contents),
        cmocka_unit_test(test_file_names_its_own_provider),
        cmocka_unit_test(test_endless_answer_is_bounded),
        cmocka_unit_test(test_dropped_generation_is_not_counted),
        cmocka_unit_test(test_every_generation_counts),
        cmocka_unit_test(test_durations_match_the_clock),
        cmocka_unit_test(test_a_generation_outlives_its_model),
        cmocka_unit_test(test_metrics_are_sent_on_flush_and_at_the_end),
        cmocka_unit_test(test_refused_metrics_are_sent_again),
        cmocka_unit_test(test_many_series_are_split_into_packets),
        cmocka_unit_test(test_packet_bytes_are_bounded),
        cmocka_unit_test(test_metrics_endpoint),
        cmocka_unit_test(test_unusable_environment_is_reported_once),
        cmocka_unit_test(test_invalid_metrics_option_is_an_error),
        cmocka_unit_test(test_forked_child_has_its_own_counts),
        cmocka_unit_test(test_each_allocation_fails_once),
        cmocka_unit_test(test_many_threads_count_exactly),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(receiver.last_metrics);
    return failed;
}
