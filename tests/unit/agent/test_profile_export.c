/* What the agent's export of profiles counts, with a receiver that never answers: a port of which nobody
 * listens. What arrives is tests/e2e/test_profiles_export.py's. */
#include "agent/profile_export.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../fixture.h"

static atomic_uint_least64_t ahead_ns; /* of the clock */

uint64_t __real_clock_monotonic_ns(void);
uint64_t __wrap_clock_monotonic_ns(void);

uint64_t __wrap_clock_monotonic_ns(void)
{
    return __real_clock_monotonic_ns() + ahead_ns;
}

struct fixture {
    int taken_fd; /* bound and not listening: nobody else gets the port */
    struct profile_export *export;
};

static void begin_with(struct fixture *f, const char *timestamp_resolution)
{
    struct config config;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    f->taken_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->taken_fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(f->taken_fd, (struct sockaddr *)&address, &size), 0);
    config_defaults(&config);
    snprintf(config.otlp_timestamp_resolution, sizeof(config.otlp_timestamp_resolution), "%s", timestamp_resolution);
    snprintf(config.otlp_profiles_endpoint, sizeof(config.otlp_profiles_endpoint), "http://127.0.0.1:%u/p",
             ntohs(address.sin_port));
    assert_int_equal(profile_export_new(&config, &f->export), 0);
    assert_non_null(f->export);
}

static void begin(struct fixture *f)
{
    begin_with(f, "1ms");
}

static void end(struct fixture *f)
{
    profile_export_free(f->export);
    close(f->taken_fd);
}

/* The sum of a family's points. */
static double metric(struct fixture *f, const char *name)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    double sum = -1;
    assert_int_equal(metric_set_new(&set), 0);
    profile_export_metrics(f->export, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family family = metric_set_family(set, i);
        if (strcmp(family.name, name) != 0)
            continue;
        sum = 0;
        for (size_t k = 0; k < family.point_count; k++)
            sum += family.points[k].value;
    }
    assert_true(sum >= 0);
    return sum;
}

/* Each in a traced request of its own. */
static void add(struct fixture *f, unsigned from, unsigned to)
{
    const struct resource resource = fixture_resource(7, "server");
    const struct frame frame = fixture_native("work");
    for (unsigned i = from; i < to; i++) {
        const struct sample s = {.time_ns = 1 + i,
                                 .weight_ns = 1,
                                 .resource = &resource,
                                 .tid = 7,
                                 .thread_name = "t",
                                 .link = {i + 1, i + 1, i + 1},
                                 .frames = &frame,
                                 .frame_count = 1};
        profile_export_add(f->export, &s);
    }
}

/* Links fill their share of a profile long before the samples do: then it is handed over. */
static void links_have_room_again(void **state)
{
    (void)state;
    enum { SAMPLES = 20000 };
    struct fixture f;
    begin(&f);
    add(&f, 0, 100);
    assert_true(metric(&f, "sonde_self_export_unlinked_samples") == 0);
    add(&f, 100, SAMPLES);
    const double unlinked = metric(&f, "sonde_self_export_unlinked_samples");
    assert_true(unlinked >= 1 && unlinked <= SAMPLES / 200);
    end(&f);
}

/* The first profile may be at the sender's already, and the last is being filled: what waits is between. */
static void what_waits_can_be_dropped(void **state)
{
    (void)state;
    enum { SAMPLES = 12000 };
    struct fixture f;
    begin(&f);
    add(&f, 0, SAMPLES);
    assert_true(metric(&f, "sonde_self_export_dropped_samples") == 0);
    const double waiting_bytes = metric(&f, "sonde_self_export_queue_bytes");
    profile_export_trim(f.export);
    const double dropped = metric(&f, "sonde_self_export_dropped_samples");
    assert_true(dropped > 0 && dropped < SAMPLES);
    assert_true(metric(&f, "sonde_self_export_queue_bytes") < waiting_bytes);
    end(&f);
}

static void wait_until_more(struct fixture *f, const char *name, double than)
{
    for (int i = 0; i < 6000 && metric(f, name) <= than; i++)
        usleep(10000);
    assert_true(metric(f, name) > than);
}

/* Not after so many attempts, which may take a moment or an hour. */
static void a_packet_is_given_up_in_time(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    add(&f, 0, 4000);
    wait_until_more(&f, "sonde_self_export_failures", 0);
    assert_true(metric(&f, "sonde_self_export_dropped_samples") == 0);
    ahead_ns += 300 * 1000000000ull;
    wait_until_more(&f, "sonde_self_export_dropped_samples", 0);
    end(&f);
}

/* With their times they fill profile after profile; without they are one sum, and there is always room for more. */
static void without_times_samples_add_up(void **state)
{
    (void)state;
    enum { SAMPLES = 200000 };
    static const char *const resolutions[] = {"1s", "none"};
    const struct resource resource = fixture_resource(7, "server");
    const struct frame frame = fixture_native("work");
    for (size_t i = 0; i < array_size(resolutions); i++) {
        struct fixture f;
        begin_with(&f, resolutions[i]);
        for (unsigned k = 0; k < SAMPLES; k++) {
            const struct sample s = {
                .time_ns = 1 + k, .weight_ns = 1, .resource = &resource, .tid = 7, .thread_name = "t", .frames = &frame, .frame_count = 1};
            profile_export_add(f.export, &s);
        }
        assert_true((metric(&f, "sonde_self_export_queue_bytes") > 0) == (i == 0));
        profile_export_end(f.export);
        assert_true(metric(&f, "sonde_self_export_unlinked_samples") == 0);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_have_room_again),
        cmocka_unit_test(what_waits_can_be_dropped),
        cmocka_unit_test(a_packet_is_given_up_in_time),
        cmocka_unit_test(without_times_samples_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
