/* The retry loop with a simulated receiver and clock: packets that are sent again, the times, and packets that are not.
 * Length of each pause: test_retry.c. */
#include "otlp/sender.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "simulation.h"

#define BUSY(after_ms)                                                                                                 \
    {                                                                                                                  \
        503, (after_ms)                                                                                                \
    }

struct fixture {
    struct simulation s;
    struct otlp_settings settings;
    struct otlp_sender sender;
    atomic_uint_least64_t errors;
    unsigned failures;
    char url[64], why[OTLP_TRANSPORT_WHY_SIZE];
};

static void on_failure(void *argument, const char *why)
{
    struct fixture *f = (struct fixture *)argument; /* the simulation is its first member */
    f->failures++;
    snprintf(f->why, sizeof(f->why), "%s", why);
}

static void begin(struct fixture *f, const struct otlp_retry_limits *limits, const struct simulated_answer *script,
                  size_t count)
{
    char why[OTLP_TRANSPORT_WHY_SIZE] = "";
    *f = (struct fixture){.s = {.now_ns = 1000 * SECOND, .script = script, .script_count = count},
                          .settings = {.timeout_ms = 10000}};
    simulation_url(&f->s, f->url);
    const struct otlp_sender_options options = {.transport = &simulation_transport,
                                                .settings = &f->settings,
                                                .signal = OTLP_SIGNAL_TRACES,
                                                .protocol = OTLP_HTTP_PROTOBUF,
                                                .url = f->url,
                                                .user_agent = "test",
                                                .limits = *limits,
                                                .errors = &f->errors,
                                                .failed = on_failure,
                                                .now_ns = simulation_now_ns,
                                                .pause = simulation_pause,
                                                .closed_ns = simulation_closed_ns,
                                                .argument = &f->s};
    assert_int_equal(otlp_sender_init(&f->sender, &options, why, sizeof(why)), 0);
}

#define begin_traces(f, ...)                                                                                           \
    begin((f), &(struct otlp_retry_limits){.attempts_max = 5, .pause_max_ms = 4000},                                   \
          (const struct simulated_answer[]){__VA_ARGS__},                                                              \
          sizeof((const struct simulated_answer[]){__VA_ARGS__}) / sizeof(struct simulated_answer))
#define begin_profiles(f, ...)                                                                                         \
    begin((f),                                                                                                         \
          &(struct otlp_retry_limits){.attempts_max = UINT_MAX, .pause_max_ms = 10000, .give_up_ns = 300 * SECOND},    \
          (const struct simulated_answer[]){__VA_ARGS__},                                                              \
          sizeof((const struct simulated_answer[]){__VA_ARGS__}) / sizeof(struct simulated_answer))

static struct otlp_delivery deliver(struct fixture *f, int expected)
{
    struct otlp_delivery delivery;
    assert_int_equal(otlp_sender_deliver(&f->sender, "packet", 6, &delivery), expected);
    assert_int_equal(f->failures, f->errors);
    return delivery;
}

static void end(struct fixture *f)
{
    otlp_sender_fini(&f->sender);
    assert_int_equal(f->s.connections, 0);
    simulation_fini(&f->s);
}

static void test_accepted_packet_is_sent_once(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, {200});
    const struct otlp_delivery d = deliver(&f, 0);
    assert_int_equal(f.s.posts, 1);
    assert_int_equal(f.errors, 0);
    assert_int_equal(d.sent_bytes, 6);
    assert_false(d.is_final || d.is_busy);
    end(&f);
}

static void test_busy_receiver_gets_the_same_packet_again(void **state)
{
    (void)state;
    static const int statuses[] = {429, 502, 503, 504};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        struct fixture f;
        begin_traces(&f, {statuses[i]}, {statuses[i]}, {200});
        deliver(&f, 0);
        assert_int_equal(f.s.posts, 3);
        assert_int_equal(f.errors, 2);
        assert_true(simulation_posts_are_equal(&f.s, 0, 1) && simulation_posts_are_equal(&f.s, 0, 2));
        assert_in_range(simulation_between_ms(&f.s, 0, 1), 250, 500);
        assert_in_range(simulation_between_ms(&f.s, 1, 2), 500, 1000);
        end(&f);
    }
}

static void test_missing_answer_is_retried(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, {-ECONNREFUSED}, {-EIO}, {200});
    deliver(&f, 0);
    assert_int_equal(f.s.posts, 3);
    assert_string_equal(f.why, strerror(EIO));
    end(&f);
}

static void test_a_refusal_is_final(void **state)
{
    (void)state;
    static const int statuses[] = {307, 400, 404, 500};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        struct fixture f;
        char why[64];
        begin_traces(&f, {statuses[i], 5000}, {200});
        const struct otlp_delivery d = deliver(&f, -EREMOTEIO);
        snprintf(why, sizeof(why), "HTTP status %d", statuses[i]);
        assert_string_equal(d.why, why);
        assert_true(d.is_final && !d.is_busy);
        assert_int_equal(f.s.posts, 1);
        deliver(&f, 0); /* the next packet is sent */
        assert_int_equal(f.errors, 1);
        end(&f);
    }
}

static void test_retry_after_is_honoured(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, BUSY(3000), BUSY(1), {429, 120000}, {200});
    deliver(&f, 0);
    assert_int_equal(simulation_between_ms(&f.s, 0, 1), 3000);
    assert_in_range(simulation_between_ms(&f.s, 1, 2), 500, 1000);
    assert_int_equal(simulation_between_ms(&f.s, 2, 3), 30000); /* the configured maximum */
    end(&f);
}

static void test_traces_are_given_up_after_five_attempts(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, {-ECONNREFUSED});
    const struct otlp_delivery d = deliver(&f, -ECONNREFUSED);
    assert_int_equal(f.s.posts, 5);
    assert_int_equal(f.errors, 5);
    assert_string_equal(d.why, strerror(ECONNREFUSED));
    assert_false(d.is_final || d.is_busy);
    assert_in_range(simulation_between_ms(&f.s, 0, 4), 3750, 7500);
    end(&f);
}

static void test_receiver_busy_until_the_last_attempt(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, BUSY(0));
    const struct otlp_delivery d = deliver(&f, -EREMOTEIO);
    assert_true(d.is_busy && !d.is_final);
    assert_string_equal(d.why, "HTTP status 503");
    end(&f);
}

static void test_profiles_are_given_up_after_five_minutes(void **state)
{
    (void)state;
    struct fixture f;
    begin_profiles(&f, {-EHOSTUNREACH});
    f.s.post_ns = 100 * MS;
    deliver(&f, -EHOSTUNREACH);
    assert_true(simulation_between_ms(&f.s, 0, f.s.posts - 1) < 300000);
    assert_true(simulation_between_ms(&f.s, 0, f.s.posts - 1) > 300000 - 10000 - 200);
    for (size_t i = 5; i + 1 < f.s.posts; i++)
        assert_in_range(simulation_between_ms(&f.s, i, i + 1), 5100, 10100);
    const uint64_t before_ns = f.s.now_ns;
    deliver(&f, -EHOSTUNREACH); /* the next packet has five minutes of its own */
    assert_true(f.s.now_ns - before_ns > 280 * SECOND);
    end(&f);
}

static void test_hanging_receiver_costs_the_timeout(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, {.hangs = true}, {200});
    deliver(&f, 0);
    assert_int_equal(f.s.posts, 2);
    assert_in_range(simulation_between_ms(&f.s, 0, 1), 10250, 10500);
    assert_true(simulation_posts_are_equal(&f.s, 0, 1));
    end(&f);
}

/* --- shutdown -------------------------------------------------------------------------------- */

static void test_shutdown_ends_a_post_after_five_seconds(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, {.hangs = true});
    f.s.options.timeout_ms = 600000;
    f.s.close_at_ns = f.s.now_ns + 60 * SECOND;
    deliver(&f, -ECANCELED);
    assert_int_equal(f.s.posts, 1);
    assert_in_range(f.s.now_ns, f.s.closed_ns + 4999 * MS, f.s.closed_ns + 5100 * MS);
    const struct otlp_delivery d = deliver(&f, -ECANCELED); /* no time is left for another packet */
    assert_string_equal(d.why, "the program ends");
    assert_int_equal(f.s.posts, 1);
    assert_int_equal(f.errors, 1);
    end(&f);
}

/* Traces: shutdown cuts a pause short, the next attempt follows at once, and later pauses fit the remaining time. */
static void test_shutdown_tries_traces_at_once(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, BUSY(30000), BUSY(0), {200});
    f.s.close_at_ns = f.s.now_ns + 10 * SECOND;
    deliver(&f, 0);
    assert_int_equal(f.s.posts, 3);
    assert_int_equal(f.s.post[1].at_ns, f.s.close_at_ns);
    assert_in_range(simulation_between_ms(&f.s, 1, 2), 500, 1000);
    end(&f);
}

static void test_shutdown_bounds_all_attempts(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, BUSY(3000));
    f.s.close_at_ns = f.s.now_ns + 1 * SECOND;
    deliver(&f, -EREMOTEIO);
    assert_int_equal(f.s.posts, 3); /* before; at shutdown; 3 s later; and not at the deadline */
    assert_in_range(f.s.now_ns, f.s.closed_ns + 4998 * MS, f.s.closed_ns + 5000 * MS);
    end(&f);
}

/* Profiles: the pause returns false, and the packet has had its last attempt; the next packet gets one attempt. */
static void test_shutdown_ends_the_attempts_for_profiles(void **state)
{
    (void)state;
    struct fixture f;
    begin_profiles(&f, BUSY(30000), BUSY(0), {200});
    f.s.attempts_end_early = true;
    f.s.close_at_ns = f.s.now_ns + 10 * SECOND;
    deliver(&f, -EREMOTEIO);
    assert_int_equal(f.s.posts, 1);
    assert_int_equal(f.s.now_ns, f.s.close_at_ns);
    deliver(&f, -EREMOTEIO);
    deliver(&f, 0);
    assert_int_equal(f.s.posts, 3);
    assert_int_equal(f.s.now_ns, f.s.close_at_ns);
    end(&f);
}

/* --- partial success ------------------------------------------------------------------------- */

static void test_rejected_items_are_reported(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        size_t size;
        uint64_t rejected;
        const char *why;
    } all[] = {{"\x0a\x08\x08\x01\x12\x04"
                "full",
                10, 1, "full"},
               {"\x0a\x05\x12\x03off", 7, 0, "off"},
               {"\x0a\x7f\x08\x05", 4, 0, ""}, /* claims more bytes than there are */
               {"<html>", 6, 0, ""},
               {NULL, 0, 0, ""}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct fixture f;
        begin_traces(&f, {.body = all[i].body, .body_size = all[i].size});
        const struct otlp_delivery d = deliver(&f, 0);
        assert_int_equal(d.rejected, all[i].rejected);
        assert_string_equal(d.why, all[i].why);
        end(&f);
    }
}

/* A forked child does not close its parent's connection; it opens its own. */
static void test_forked_child_opens_its_own_connection(void **state)
{
    (void)state;
    struct fixture f;
    begin_traces(&f, {200});
    deliver(&f, 0);
    otlp_sender_reset_in_child(&f.sender);
    assert_int_equal(f.s.connections, 1);
    deliver(&f, 0);
    assert_int_equal(f.s.connections, 2);
    f.s.connections--; /* the parent's, which the child leaves open */
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted_packet_is_sent_once),
        cmocka_unit_test(test_busy_receiver_gets_the_same_packet_again),
        cmocka_unit_test(test_missing_answer_is_retried),
        cmocka_unit_test(test_a_refusal_is_final),
        cmocka_unit_test(test_retry_after_is_honoured),
        cmocka_unit_test(test_traces_are_given_up_after_five_attempts),
        cmocka_unit_test(test_receiver_busy_until_the_last_attempt),
        cmocka_unit_test(test_profiles_are_given_up_after_five_minutes),
        cmocka_unit_test(test_hanging_receiver_costs_the_timeout),
        cmocka_unit_test(test_shutdown_ends_a_post_after_five_seconds),
        cmocka_unit_test(test_shutdown_tries_traces_at_once),
        cmocka_unit_test(test_shutdown_bounds_all_attempts),
        cmocka_unit_test(test_shutdown_ends_the_attempts_for_profiles),
        cmocka_unit_test(test_rejected_items_are_reported),
        cmocka_unit_test(test_forked_child_opens_its_own_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
