/* What a consumer attached to the provider `sonde_trace` receives, and how untraced requests behave then.
 * tests/e2e/test_trace_probes.py checks third-party tools. */
#include "../mappings.h"
#include "listener.h"
#include "transport.h"

#include <errno.h>
#include <sys/wait.h>

#define PARENT      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
#define PARENT_HIGH 0x0af7651916cd43ddu
#define PARENT_LOW  0x8448eb211c80319cu

static struct sonde_trace *start(struct fixture *f, const char *id, const char *traceparent)
{
    return sonde_trace_start(f->model, &(struct sonde_trace_request){.size = sizeof(struct sonde_trace_request),
                                                                     .request_id = id,
                                                                     .request_id_size = id ? strlen(id) : 0,
                                                                     .traceparent = traceparent});
}

static void test_unattached_probes_fire_nothing(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1000", "level=TIMESTAMPS");
    assert_false(trace_probes_enabled());
    assert_null(sonde_trace_start(f.model, NULL));
    assert_null(start(&f, "r", PARENT "01"));
    assert_int_equal(firing_count, 0);
    fixture_close(&f);
}

/* Attaching to any of the four is enough. */
static void test_untraced_request_fires_when_attached(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=4", "level=TIMESTAMPS", "level=TENSORS");
    for (int probe = HEARD_REQUEST_START; probe <= HEARD_THREAD_LEAVE; probe++) { /* the fourth request is due for
                                                                                   * sampling */
        attach_to(probe, 1);
        struct sonde_trace *t = sonde_trace_start(f.model, NULL);
        assert_non_null(t);
        assert_int_equal(sonde_trace_id(t) != 0, probe == HEARD_THREAD_LEAVE);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
        attach_to(probe, -1);
        assert_null(probe == HEARD_THREAD_LEAVE ? sonde_trace_start(f.model, NULL) : NULL);
    }
    listen_to_all(1);
    struct sonde_trace *t = start(&f, "r", NULL), *child = sonde_trace_child(t, f.model);
    char parent[SONDE_TRACE_PARENT_SIZE];
    const char *tracestate;
    assert_int_equal(sonde_trace_level(t) + sonde_trace_level(child), 0);
    assert_int_equal(sonde_trace_id(t) + sonde_trace_id(child), 0);
    assert_int_equal(sonde_trace_context(t, parent, &tracestate), -ENOENT);
    sonde_trace_timestamp(t, SONDE_TRACE_QUEUE_START);
    sonde_trace_custom(child, "X_START");
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT,
                       &(struct sonde_trace_tensor){"x", "INT8", (const int64_t[]){1}, 1, "x", 1});
    sonde_trace_end(t, SONDE_TRACE_ERROR, "why");
    sonde_trace_end(child, SONDE_TRACE_OK, NULL);
    assert_int_equal(firing_count, 4);
    struct sonde_trace_stats s = fixture_stats(&f);
    assert_int_equal(s.sampled, 1);
    assert_int_equal(s.records_dropped, 0);
    assert_int_equal(sonde_trace_manager_flush(f.manager, 20000), 0);
    assert_int_equal(fixture_stats(&f).written, 1);
    listen_to_all(-1);
    fixture_close(&f);
}

/* The ids in the file do not depend on attached consumers. */
static void test_probe_arguments_of_a_request(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=2", "level=TIMESTAMPS");
    listen_to_all(1);
    struct sonde_trace *not_traced = start(&f, NULL, NULL), *t = start(&f, "a\0b", NULL);
    struct sonde_trace *child = sonde_trace_child(t, f.model);
    sonde_trace_request_id(not_traced, "late", 4);
    sonde_trace_end(not_traced, SONDE_TRACE_ERROR, "why");
    sonde_trace_end(child, SONDE_TRACE_OK, NULL);
    sonde_trace_end(t, SONDE_TRACE_CANCELLED, NULL);
    assert_int_equal(firing_count, 6);
    const struct firing *s0 = &firings[0], *s1 = &firings[1], *c = &firings[2];
    const struct firing *e0 = &firings[3], *ec = &firings[4], *e1 = &firings[5];
    for (int i = 0; i < 6; i++) {
        assert_int_equal(firings[i].probe, i < 3 ? HEARD_REQUEST_START : HEARD_REQUEST_END);
        assert_true((firings[i].high | firings[i].low) && firings[i].span_id);
        assert_string_equal(firings[i].model, i < 3 ? "m" : "");
    }
    assert_true(s0->id == 0 && e0->id == 0 && s1->id != 0 && e1->id == s1->id && c->id == s1->id + 1);
    assert_true(s0->span_id == e0->span_id && s1->span_id == e1->span_id && c->span_id == ec->span_id);
    assert_true(s0->span_id != s1->span_id && s1->span_id != c->span_id && s0->high != s1->high);
    assert_true(s1->high == c->high && s1->low == c->low && s1->high == e1->high && s1->low == e1->low);
    assert_string_equal(s0->request_id, "");
    assert_string_equal(e0->request_id, "late");
    assert_string_equal(s1->request_id, "a");
    assert_string_equal(c->request_id, "");
    assert_int_equal(e0->status, SONDE_TRACE_ERROR);
    assert_int_equal(ec->status, SONDE_TRACE_OK);
    assert_int_equal(e1->status, SONDE_TRACE_CANCELLED);
    listen_to_all(-1);
    fixture_close(&f);
}

/* In triton mode a caller's trace is continued whatever its flags, and does not affect sampling. */
static void test_probe_ids_continue_the_callers_trace(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=2", "level=TIMESTAMPS");
    listen_to_all(1);
    const char *const parents[] = {PARENT "00", PARENT "01", "00-nonsense", PARENT "0"};
    for (int i = 0; i < 4; i++) {
        struct sonde_trace *t = start(&f, NULL, parents[i]);
        const struct firing *s = &firings[firing_count - 1];
        assert_true((s->high == PARENT_HIGH && s->low == PARENT_LOW) == (i < 2));
        assert_true(s->span_id && s->span_id != 0xb7ad6b7169203331u);
        assert_int_equal(s->id != 0, i % 2);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    }
    listen_to_all(-1);
    fixture_close(&f);
}

static void test_probe_ids_in_opentelemetry_mode(void **state)
{
    (void)state;
    static const char *const settings[] = {"mode=opentelemetry", "level=TIMESTAMPS", "rate=1000"};
    struct fixture f = {0};
    struct sonde_trace_config *config;
    char parent[SONDE_TRACE_PARENT_SIZE], why[SONDE_TRACE_WHY_SIZE];
    const char *tracestate;
    assert_int_equal(sonde_trace_config_new(&config), 0);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(sonde_trace_config_set(config, "--trace-config", settings[i], why, sizeof(why)), 0);
    assert_int_equal(trace_manager_new(config, NULL, &transport_to_nowhere, &f.manager, why, sizeof(why)), 0);
    assert_int_equal(sonde_trace_model_new(f.manager, "m", 1, &f.model), 0);
    sonde_trace_config_free(config);
    assert_null(start(&f, NULL, PARENT "00"));
    listen_to_all(1);
    struct sonde_trace *sampled = start(&f, NULL, PARENT "01"), *not_sampled = start(&f, NULL, PARENT "00"),
                       *by_rate = start(&f, NULL, NULL);
    assert_int_equal(sonde_trace_context(sampled, parent, &tracestate), 0);
    assert_int_equal(sonde_trace_context(not_sampled, parent, &tracestate), -ENOENT);
    assert_int_equal(sonde_trace_context(by_rate, parent, &tracestate), -ENOENT);
    for (int i = 0; i < 3; i++) {
        assert_true((firings[i].high == PARENT_HIGH && firings[i].low == PARENT_LOW) == (i < 2));
        assert_int_equal(firings[i].id != 0, i == 0);
    }
    sonde_trace_end(not_sampled, SONDE_TRACE_OK, NULL);
    sonde_trace_end(by_rate, SONDE_TRACE_OK, NULL);
    sonde_trace_end(sampled, SONDE_TRACE_OK, NULL);
    assert_int_equal(firing_count, 6);
    assert_int_equal(fixture_stats(&f).sampled, 1);
    listen_to_all(-1);
    sonde_trace_model_free(f.model);
    sonde_trace_manager_free(f.manager);
}

/* One per process, while there is a manager; consumers may stay attached. */
static void test_provider_lives_with_the_manager(void **state)
{
    (void)state;
    struct fixture one, other;
    attached_really = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_mappings("memfd:sonde_trace"), 0);
        assert_int_equal(count_mappings("OTEL_CTX"), 0);
        fixture_open(&one, "rate=1", "level=TIMESTAMPS");
        fixture_open(&other, "rate=1", "level=TIMESTAMPS");
        assert_int_equal(count_mappings("memfd:sonde_trace"), 2);
        assert_int_equal(count_mappings("OTEL_CTX"), 1);
        listen_to_all(1);
        struct sonde_trace *t = start(&one, NULL, NULL);
        fixture_close(&one);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL); /* holds its manager */
        assert_int_equal(firing_count, 2);
        assert_int_equal(count_mappings("memfd:sonde_trace"), 2);
        listen_to_all(-1);
        fixture_close(&other);
        assert_false(trace_probes_enabled());
    }
    attached_really = false;
}

static void test_forked_child_fires_its_own_probes(void **state)
{
    (void)state;
    struct fixture f;
    attached_really = true;
    fixture_open(&f, "rate=1000", "level=TIMESTAMPS");
    listen_to_all(1);
    struct sonde_trace *t = start(&f, NULL, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        sonde_trace_end(t, SONDE_TRACE_OK, NULL); /* the parent's */
        bool silent = firing_count == 1;
        listen_to_all(1); /* as a kernel would, after the first firing has renewed the object */
        struct sonde_trace *own = start(&f, NULL, NULL);
        sonde_trace_end(own, SONDE_TRACE_OK, NULL);
        _exit(!silent || !own || firing_count == 0);
    }
    int status = 1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    assert_int_equal(firing_count, 2);
    listen_to_all(-1);
    fixture_close(&f);
    attached_really = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unattached_probes_fire_nothing),
        cmocka_unit_test(test_untraced_request_fires_when_attached),
        cmocka_unit_test(test_probe_arguments_of_a_request),
        cmocka_unit_test(test_probe_ids_continue_the_callers_trace),
        cmocka_unit_test(test_probe_ids_in_opentelemetry_mode),
        cmocka_unit_test(test_provider_lives_with_the_manager),
        cmocka_unit_test(test_forked_child_fires_its_own_probes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
