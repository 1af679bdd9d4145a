/* The agent's export of profiles, with a simulated receiver and clock: when profiles are cut, retries, and dropped
 * profiles with their reasons. Real receivers: tests/e2e/test_profiles_export.py,
 * tests/faults/test_profiles_receivers.py. */
#include "base/clock.h"
#include "send/profile_export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../fixture.h"
#include "../lib/otlp/simulation.h"
#include "export_metrics.h"

#define QUEUE_BYTES ((uint64_t)4 << 16)

static const struct memory_plan memory = {
    .bytes = {[MEMORY_EXPORT_QUEUE] = QUEUE_BYTES, [MEMORY_EXPORT_PROFILES] = QUEUE_BYTES}};

struct fixture {
    struct simulation s; /* first member: callbacks cast to the fixture */
    struct profile_export *export;
    struct export_io io;
    unsigned per_second; /* samples that the pipeline adds per simulated second */
    unsigned added;
    uint64_t recovers_ns; /* when the receiver begins to accept; 0: as scripted */
    double queue_bytes_max;
};

static double metric_of(const struct fixture *f, const char *name, const char *reason)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    char full_name[64];
    snprintf(full_name, sizeof(full_name), "sonde_self_export_%s", name);
    assert_int_equal(metric_set_new(&set), 0);
    profile_export_metrics(f->export, set);
    return value_of_metric(set, full_name, reason);
}

static double metric(const struct fixture *f, const char *name)
{
    return metric_of(f, name, NULL);
}

static double dropped(const struct fixture *f, const char *reason)
{
    return metric_of(f, "dropped_samples", reason);
}

static void begin_with(struct fixture *f, const char *timestamp_resolution, int64_t interval_s,
                       const struct simulated_answer *script, size_t count)
{
    struct config config;
    *f = (struct fixture){
        .s = {.now_ns = 1000 * SECOND, .attempts_end_early = true, .script = script, .script_count = count}};
    f->io = (struct export_io){&simulation_transport, simulation_now_ns, simulation_pause, &f->s};
    config_defaults(&config);
    config.otlp_interval_s = interval_s;
    snprintf(config.otlp_timestamp_resolution, sizeof(config.otlp_timestamp_resolution), "%s", timestamp_resolution);
    snprintf(config.otlp_profiles_endpoint, sizeof(config.otlp_profiles_endpoint), "http://%p", (void *)&f->s);
    assert_int_equal(profile_export_new(&config, &memory, &f->io, &f->export), 0);
    assert_non_null(f->export);
}

#define begin(f, ...)                                                                                                  \
    begin_with((f), "1ms", 1, (const struct simulated_answer[]){__VA_ARGS__},                                          \
               sizeof((const struct simulated_answer[]){__VA_ARGS__}) / sizeof(struct simulated_answer))

static void end(struct fixture *f)
{
    profile_export_free(f->export);
    assert_int_equal(f->s.connections, 0);
    simulation_fini(&f->s);
}

static void add_samples(struct fixture *f, unsigned count)
{
    const struct resource resource = fixture_resource(7, "server");
    const struct frame frame = fixture_native("work");
    for (unsigned i = 0; i < count; i++, f->added++) {
        const struct sample s = {.type = &sample_type_cpu,
                                 .time_ns = 1 + f->added,
                                 .value = 1,
                                 .resource = &resource,
                                 .tid = 7,
                                 .thread_name = "t",
                                 .frames = &frame,
                                 .frame_count = 1};
        profile_export_add(f->export, &s);
    }
}

/* The pipeline thread's work while the sender thread waits. */
static void on_second(struct simulation *s)
{
    struct fixture *f = (struct fixture *)s;
    if (!s->closed_ns) {
        add_samples(f, f->per_second);
        profile_export_tick(f->export);
    }
    const double queue_bytes = metric(f, "queue_bytes");
    f->queue_bytes_max = queue_bytes > f->queue_bytes_max ? queue_bytes : f->queue_bytes_max;
    if (f->recovers_ns && s->now_ns >= f->recovers_ns)
        s->script_count = 0;
}

static void on_close(struct simulation *s)
{
    profile_export_end(((struct fixture *)s)->export);
}

static void pass_seconds(struct fixture *f, unsigned seconds)
{
    f->s.each_second = on_second;
    f->s.close = on_close;
    simulation_pass(&f->s, f->s.now_ns + seconds * SECOND, NULL);
}

/* Shuts the agent down, and runs the sender thread to its end. */
static void stop(struct fixture *f)
{
    f->s.closed_ns = f->s.now_ns;
    profile_export_end(f->export);
    profile_export_send_queued(f->export);
    assert_true(metric(f, "queue_bytes") == 0);
    assert_true(metric(f, "samples") + metric(f, "dropped_samples") == f->added);
}

/* --- profiles -------------------------------------------------------------------------------- */

/* At the tick nearest to the end of the interval: ticks are late and early. */
static void test_profiles_are_cut_at_their_interval(void **state)
{
    (void)state;
    static const struct {
        unsigned at_ms;
        bool is_cut;
    } ticks[] = {{1000, false}, {4499, false},  {4500, true},  {8999, false}, {9000, true},
                 {14400, true}, {14500, false}, {30000, true}, {34400, false}};
    struct fixture f;
    begin_with(&f, "1ms", 5, NULL, 0);
    const uint64_t begin_ns = f.s.now_ns;
    size_t expected = 0;
    for (size_t i = 0; i < array_size(ticks); i++) {
        simulation_pass(&f.s, begin_ns + ticks[i].at_ms * MS, NULL);
        add_samples(&f, 1);
        profile_export_tick(f.export);
        profile_export_send_queued(f.export);
        expected += ticks[i].is_cut;
        assert_int_equal(f.s.posts, expected);
    }
    stop(&f);
    assert_int_equal(f.s.posts, expected + 1);
    end(&f);
}

static void test_a_profile_without_samples_is_not_sent(void **state)
{
    (void)state;
    struct fixture f;
    begin_with(&f, "1ms", 1, NULL, 0);
    pass_seconds(&f, 10);
    stop(&f);
    assert_int_equal(f.s.posts, 0);
    end(&f);
}

static void test_every_sample_is_sent_once(void **state)
{
    (void)state;
    struct fixture f;
    size_t bytes = 0;
    begin_with(&f, "1ms", 1, NULL, 0);
    f.per_second = 50;
    for (int i = 0; i < 10; i++) {
        pass_seconds(&f, 1);
        profile_export_send_queued(f.export);
        assert_int_equal(f.s.posts, i + 1);
    }
    add_samples(&f, 3); /* the last profile is sent at shutdown, before its interval is over */
    stop(&f);
    assert_int_equal(f.s.posts, 11);
    assert_true(metric(&f, "samples") == 503 && metric(&f, "packets") == 11 && metric(&f, "failures") == 0);
    for (size_t i = 0; i < f.s.posts; i++) {
        bytes += f.s.post[i].size;
        for (size_t k = 0; k < i; k++)
            assert_false(simulation_posts_are_equal(&f.s, i, k));
    }
    assert_true(metric(&f, "bytes") == (double)bytes);
    end(&f);
}

/* Of a type that the configuration does not name, too; a further type has no memory left. */
static void test_each_type_has_its_profile(void **state)
{
    (void)state;
    static const struct sample_type types[] = {{.name = "cpu", .unit = "nanoseconds", .counts = "samples"},
                                               {.name = "page-faults", .unit = "count", .counts = "samples"},
                                               {.name = "mmap", .unit = "bytes", .counts = "samples"}};
    const struct resource resource = fixture_resource(7, "server");
    const struct frame frame = fixture_native("work");
    struct fixture f;
    begin_with(&f, "1ms", 1, NULL, 0);
    for (size_t i = 0; i < 2 * array_size(types); i++, f.added++) {
        const struct sample s = {.type = &types[i % array_size(types)],
                                 .value = 1,
                                 .resource = &resource,
                                 .thread_name = "t",
                                 .frames = &frame,
                                 .frame_count = 1};
        profile_export_add(f.export, &s);
    }
    stop(&f);
    assert_int_equal(f.s.posts, 2);
    assert_true(metric(&f, "samples") == 4);
    assert_true(dropped(&f, "no_memory") == 2);
    end(&f);
}

/* Each sample is in a traced request of its own: links reach their share of a profile long before the samples do. Then
 * the profile is cut. */
static void test_full_links_cut_the_profile(void **state)
{
    (void)state;
    enum { SAMPLES = 20000 };
    const struct resource resource = fixture_resource(7, "server");
    const struct frame frame = fixture_native("work");
    struct fixture f;
    begin_with(&f, "1ms", 1, NULL, 0);
    for (unsigned i = 0; i < SAMPLES; i++) {
        const struct sample s = {.type = &sample_type_cpu,
                                 .time_ns = 1 + i,
                                 .value = 1,
                                 .resource = &resource,
                                 .tid = 7,
                                 .thread_name = "t",
                                 .link = {i + 1, i + 1, i + 1},
                                 .frames = &frame,
                                 .frame_count = 1};
        profile_export_add(f.export, &s);
        profile_export_send_queued(f.export);
        if (i == 20)
            assert_true(metric(&f, "unlinked_samples") == 0);
    }
    const double unlinked = metric(&f, "unlinked_samples");
    assert_true(unlinked >= 1 && unlinked == f.s.posts);
    assert_true(unlinked <= SAMPLES / 50);
    end(&f);
}

/* With timestamps they fill profile after profile; without, they are merged, and there is always space for more. */
static void test_samples_without_timestamps_are_merged(void **state)
{
    (void)state;
    static const char *const resolutions[] = {"1s", "none"};
    for (size_t i = 0; i < array_size(resolutions); i++) {
        struct fixture f;
        begin_with(&f, resolutions[i], 1, NULL, 0);
        add_samples(&f, 200000);
        assert_true((metric(&f, "queue_bytes") > 0) == (i == 0));
        assert_true(metric(&f, "unlinked_samples") == 0);
        stop(&f);
        end(&f);
    }
}

static void test_memory_shortage_drops_the_older_half(void **state)
{
    (void)state;
    struct fixture f;
    begin_with(&f, "1ms", 1, NULL, 0);
    f.per_second = 10;
    pass_seconds(&f, 8);
    const double queued_bytes = metric(&f, "queue_bytes");
    profile_export_trim(f.export);
    assert_true(dropped(&f, "queue_full") == 40 && metric(&f, "dropped_samples") == 40);
    assert_true(metric(&f, "queue_bytes") < queued_bytes);
    stop(&f);
    assert_true(metric(&f, "samples") == 40);
    end(&f);
}

/* --- receivers ------------------------------------------------------------------------------- */

static void test_a_busy_receiver_gets_the_same_packet_again(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, {503}, {429, 5000}, {504}, {200});
    f.per_second = 10;
    pass_seconds(&f, 1);
    profile_export_send_queued(f.export);
    assert_true(f.s.posts > 4); /* with the profiles that were cut meanwhile */
    for (size_t i = 1; i < 4; i++)
        assert_true(simulation_posts_are_equal(&f.s, 0, i));
    assert_false(simulation_posts_are_equal(&f.s, 0, 4));
    assert_in_range(simulation_between_ms(&f.s, 0, 1), 250, 500);
    assert_int_equal(simulation_between_ms(&f.s, 1, 2), 5000);
    assert_in_range(simulation_between_ms(&f.s, 2, 3), 1000, 2000);
    assert_true(metric(&f, "failures") == 3);
    stop(&f);
    assert_true(metric(&f, "dropped_samples") == 0);
    end(&f);
}

static void test_a_refused_packet_is_dropped(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, {400}, {404}, {500}, {307}, {200});
    f.per_second = 10;
    pass_seconds(&f, 6);
    profile_export_send_queued(f.export);
    assert_int_equal(f.s.posts, 6);
    assert_true(dropped(&f, "refused") == 40 && metric(&f, "dropped_samples") == 40);
    assert_true(metric(&f, "failures") == 4 && metric(&f, "samples") == 20);
    stop(&f);
    end(&f);
}

static void test_rejected_profiles_are_counted(void **state)
{
    (void)state;
    static const char one[] = "\x0a\x08\x08\x01\x12\x04"
                              "full",
                      many[] = "\x0a\x02\x08\x7f";
    struct fixture f;
    begin(&f, {.body = one, .body_size = sizeof(one) - 1}, {.body = many, .body_size = sizeof(many) - 1},
          {.body = "<html>", .body_size = 6}, {200});
    f.per_second = 10;
    pass_seconds(&f, 4);
    profile_export_send_queued(f.export);
    assert_true(metric(&f, "rejected_profiles") == 2); /* a packet has one profile here, whatever the receiver claims */
    assert_true(metric(&f, "failures") == 0 && metric(&f, "samples") == 40);
    stop(&f);
    end(&f);
}

/* The first packet is given up after five minutes. The queue keeps the newest profiles that fit. */
static void test_dead_receiver_drops_the_oldest_samples(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, {-ECONNREFUSED});
    f.per_second = 100;
    f.recovers_ns = f.s.now_ns + 700 * SECOND;
    pass_seconds(&f, 1);
    profile_export_send_queued(f.export); /* until the receiver has recovered and the queue is empty */
    assert_in_range(f.s.now_ns, f.recovers_ns, f.recovers_ns + 11 * SECOND);
    assert_true(f.queue_bytes_max > QUEUE_BYTES / 2 && f.queue_bytes_max <= QUEUE_BYTES);
    assert_true(dropped(&f, "unreachable") == 2 * 100); /* one packet per 300 s */
    assert_true(dropped(&f, "queue_full") > 0);
    assert_true(metric(&f, "dropped_samples") == dropped(&f, "unreachable") + dropped(&f, "queue_full"));
    const double lost = metric(&f, "dropped_samples");
    assert_true(metric(&f, "samples") == f.added - lost);
    f.s.script_count = 0;
    pass_seconds(&f, 10); /* and continues normally */
    stop(&f);
    assert_true(metric(&f, "dropped_samples") == lost);
    end(&f);
}

static void test_a_short_outage_loses_nothing(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, {-ECONNREFUSED}, {-ECONNRESET}, {.hangs = true}, {503}, {200});
    f.per_second = 10;
    pass_seconds(&f, 1);
    profile_export_send_queued(f.export);
    assert_true(f.added >= 10 * 11); /* the pipeline continued during the ten seconds of the post that hung */
    stop(&f);
    assert_true(metric(&f, "dropped_samples") == 0 && metric(&f, "failures") == 4);
    end(&f);
}

/* --- shutdown -------------------------------------------------------------------------------- */

static void test_shutdown_sends_the_queue(void **state)
{
    (void)state;
    struct fixture f;
    begin_with(&f, "1ms", 1, NULL, 0);
    f.per_second = 10;
    pass_seconds(&f, 5);
    add_samples(&f, 7);
    stop(&f);
    assert_true(metric(&f, "samples") == 57 && metric(&f, "packets") == 6);
    profile_export_end(f.export); /* a second call changes nothing */
    end(&f);
}

/* Shutdown during a pause gives the current packet its last attempt; each further packet gets one attempt. */
static void test_shutdown_does_not_wait_for_a_dead_receiver(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, {-ECONNREFUSED});
    f.per_second = 10;
    f.s.close_at_ns = f.s.now_ns + 10 * SECOND + 300 * MS;
    pass_seconds(&f, 1);
    profile_export_send_queued(f.export);
    assert_int_equal(f.s.now_ns, f.s.close_at_ns);
    assert_true(metric(&f, "queue_bytes") == 0);
    assert_true(dropped(&f, "ended") == 100 && metric(&f, "dropped_samples") == 100 && f.added == 100);
    end(&f);
}

/* The hanging post is ended after five seconds, and no other one begins. */
static void test_shutdown_does_not_wait_for_a_hanging_receiver(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, {.hangs = true});
    f.s.options.timeout_ms = 600000;
    f.per_second = 10;
    f.s.close_at_ns = f.s.now_ns + 10 * SECOND;
    pass_seconds(&f, 1);
    profile_export_send_queued(f.export);
    assert_int_equal(f.s.posts, 1);
    assert_in_range(f.s.now_ns, f.s.close_at_ns + 4900 * MS, f.s.close_at_ns + 5100 * MS);
    assert_true(dropped(&f, "ended") == 100 && metric(&f, "dropped_samples") == 100 && f.added == 100);
    end(&f);
}

static void test_shutdown_tries_a_refusing_receiver_once(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, {400});
    f.per_second = 10;
    pass_seconds(&f, 3);
    stop(&f);
    assert_true(dropped(&f, "refused") == 30 && f.s.posts == 3);
    end(&f);
}

/* --- the thread ------------------------------------------------------------------------------ */

static uint64_t system_clock_ns(void *argument)
{
    (void)argument;
    return clock_monotonic_ns();
}

static void test_sender_thread_sends_and_exits(void **state)
{
    (void)state;
    struct fixture f;
    const struct export_io io = {&simulation_transport, system_clock_ns, simulation_pause, &f.s};
    struct config config;
    f = (struct fixture){.s = {.now_ns = 1000 * SECOND}};
    config_defaults(&config);
    snprintf(config.otlp_profiles_endpoint, sizeof(config.otlp_profiles_endpoint), "http://%p", (void *)&f.s);
    assert_int_equal(profile_export_new(&config, &memory, &io, &f.export), 0);
    assert_int_equal(profile_export_start(f.export), 0);
    add_samples(&f, 20);
    profile_export_end(f.export);
    profile_export_free(f.export);
    assert_int_equal(f.s.posts, 1);
    simulation_fini(&f.s);
}

static void test_nothing_is_sent_without_an_endpoint(void **state)
{
    (void)state;
    struct config config;
    struct profile_export *e = (void *)&config;
    config_defaults(&config);
    config.otlp_profiles_endpoint[0] = '\0';
    assert_int_equal(profile_export_new(&config, &memory, NULL, &e), 0);
    assert_null(e);
    profile_export_end(NULL);
    profile_export_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profiles_are_cut_at_their_interval),
        cmocka_unit_test(test_a_profile_without_samples_is_not_sent),
        cmocka_unit_test(test_every_sample_is_sent_once),
        cmocka_unit_test(test_each_type_has_its_profile),
        cmocka_unit_test(test_full_links_cut_the_profile),
        cmocka_unit_test(test_samples_without_timestamps_are_merged),
        cmocka_unit_test(test_memory_shortage_drops_the_older_half),
        cmocka_unit_test(test_a_busy_receiver_gets_the_same_packet_again),
        cmocka_unit_test(test_a_refused_packet_is_dropped),
        cmocka_unit_test(test_rejected_profiles_are_counted),
        cmocka_unit_test(test_dead_receiver_drops_the_oldest_samples),
        cmocka_unit_test(test_a_short_outage_loses_nothing),
        cmocka_unit_test(test_shutdown_sends_the_queue),
        cmocka_unit_test(test_shutdown_does_not_wait_for_a_dead_receiver),
        cmocka_unit_test(test_shutdown_does_not_wait_for_a_hanging_receiver),
        cmocka_unit_test(test_shutdown_tries_a_refusing_receiver_once),
        cmocka_unit_test(test_sender_thread_sends_and_exits),
        cmocka_unit_test(test_nothing_is_sent_without_an_endpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
