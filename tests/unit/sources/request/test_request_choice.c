/* The random sample of a process's requests: all of them while there are few, and the sum of weights is always their
 * number. Random numbers come from a fixed sequence. */
#include <linux/types.h>

#include "probes/request/request_choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RECORDS_A_WINDOW 32
#define WINDOW_NS        (1ull << REQUEST_WINDOW_SHIFT)

struct seconds {
    uint64_t now_ns;
    uint64_t random;
    struct request_process process;
};

struct sampled {
    uint32_t requests, weight;
};

/* One second of `rate` requests. */
static struct sampled run_window(struct seconds *s, uint32_t rate)
{
    struct sampled sampled = {0};
    s->now_ns += WINDOW_NS;
    for (uint32_t i = 0; i < rate; i++) {
        s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
        request_is_notable(&s->process, 1000000, 0, s->now_ns + i, RECORDS_A_WINDOW);
        const uint32_t weight = request_sample_weight(&s->process, (uint32_t)(s->random >> 32));
        sampled.weight += weight;
        sampled.requests += weight != 0;
    }
    return sampled;
}

static void test_few_requests_are_all_in_the_sample(void **state)
{
    struct seconds s = {.now_ns = 1ull << 40};
    (void)state;
    for (int i = 0; i < 60; i++) {
        const struct sampled sampled = run_window(&s, 63);
        assert_int_equal(sampled.requests, 63);
        assert_int_equal(sampled.weight, 63);
    }
}

static void test_few_requests_after_a_burst_are_all_in_the_sample(void **state)
{
    struct seconds s = {.now_ns = 1ull << 40};
    (void)state;
    for (int i = 0; i < 10; i++)
        run_window(&s, 5000);
    for (int i = 0; i < 12; i++)
        run_window(&s, 50);
    assert_int_equal(run_window(&s, 50).requests, 50);
}

/* The mean over 200 seconds; the first ones adapt. */
static void expect_rate(uint32_t rate, uint32_t least, uint32_t most)
{
    struct seconds s = {.now_ns = 1ull << 40};
    uint64_t requests = 0, weight = 0;
    for (int i = 0; i < 10; i++)
        run_window(&s, rate);
    for (int i = 0; i < 200; i++) {
        const struct sampled sampled = run_window(&s, rate);
        requests += sampled.requests;
        weight += sampled.weight;
    }
    assert_in_range(requests, 200ull * least, 200ull * most);
    assert_in_range(weight, 200ull * rate * 9 / 10, 200ull * rate * 11 / 10);
}

static void test_sample_falls_as_the_rate_rises(void **state)
{
    (void)state;
    expect_rate(64, 16, 64);
    expect_rate(100, 16, 32);
    expect_rate(200, 8, 16);
    expect_rate(1000, 4, 8);
    expect_rate(50000, 4, 8);
}

static void test_burst_is_bounded(void **state)
{
    struct seconds s = {.now_ns = 1ull << 40};
    (void)state;
    assert_in_range(run_window(&s, 100000).requests, 150, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_requests_are_all_in_the_sample),
        cmocka_unit_test(test_few_requests_after_a_burst_are_all_in_the_sample),
        cmocka_unit_test(test_sample_falls_as_the_rate_rises),
        cmocka_unit_test(test_burst_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
