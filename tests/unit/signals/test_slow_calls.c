/* Slow waits of the flight recorder are counted by service and call, and the slowest of a minute are events. */
#include "flight_rings.h"
#include "model/metric.h"
#include "model/sample.h"
#include "signal_events_fixture.h"
#include "signals/recent_waits.h"

#include "probes/unwind/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define MS     1000000ull
#define NOBODY 0x7ffffff0 /* no thread has this ID */

uint64_t __wrap_clock_monotonic_ns(void);

static uint64_t now_ns;

uint64_t __wrap_clock_monotonic_ns(void)
{
    return now_ns;
}

static struct rings rings;
static const struct signal *slow_calls;
static struct signal_services services;
static void *self;
static char emitted[4096];
static uint32_t noted_pid;

static void keep_event(void *pipeline, const struct node_event *event)
{
    size_t used = strlen(emitted);
    (void)pipeline;
    used += event_text(event, emitted + used, sizeof(emitted) - used);
    snprintf(emitted + used, sizeof(emitted) - used, "\n");
}

static void keep_noted(void *pipeline, uint32_t pid, uint64_t cgroup_id, uint64_t time_ns)
{
    (void)pipeline, (void)cgroup_id, (void)time_ns;
    noted_pid = pid;
}

static int resolve(void *context, const struct stack_record *record, struct sample *ret)
{
    static struct frame frames[] = {
        {.kind = FRAME_KERNEL, .function = "schedule", .mapping = ""},
        {.kind = FRAME_KERNEL, .function = "ext4_sync_file", .mapping = ""},
        {.kind = FRAME_NATIVE, .function = "fsync", .mapping = ""},
        {.kind = FRAME_NATIVE, .function = "write_journal", .mapping = ""},
    };
    (void)context, (void)record;
    *ret = (struct sample){.frames = frames, .frame_count = 4};
    return 0;
}

static void turn(void)
{
    const struct mapped_processes none = {0};
    slow_calls->turn(self, &none);
}

static int begin(void **state)
{
    (void)state;
    now_ns = 100 * 1000 * MS;
    emitted[0] = '\0';
    noted_pid = 0;
    rings = (struct rings){0};
    open_rings(&rings);
    slow_calls = signal_named("slow_calls");
    services = (struct signal_services){.recorder = rings.recorder, .emit_event = keep_event, .note_stack = keep_noted};
    assert_int_equal(recent_waits_new(resolve, NULL, &services.recent_waits), 0);
    assert_int_equal(slow_calls->create(&services, slow_calls->defaults, NULL, &self), 0);
    turn(); /* reading begins */
    return 0;
}

static int end(void **state)
{
    (void)state;
    slow_calls->destroy(self);
    recent_waits_free(services.recent_waits);
    close_rings(&rings);
    return 0;
}

static void put(uint64_t time_ns, unsigned kind, unsigned flags, int syscall, uint32_t tid, uint64_t value)
{
    rings.records[rings.cpu->scheduler_count++ % RINGS_RECORDS] = (struct recorder_record){.time_ns = time_ns,
                                                                                           .kind = (uint8_t)kind,
                                                                                           .flags = (uint8_t)flags,
                                                                                           .syscall = (int16_t)syscall,
                                                                                           .tid = tid,
                                                                                           .value = value};
}

/* A wait that begins now, and is read. */
static void wait_in(int syscall, uint32_t tid, uint32_t pid, uint64_t ms)
{
    put(now_ns + 1, RECORDER_SWITCH, RECORDER_UNINTERRUPTIBLE, syscall, tid, (uint64_t)pid << 32);
    now_ns += ms * MS;
    put(now_ns + 1, RECORDER_WAKING, RECORDER_IN_HARDIRQ, RECORDER_NO_SYSCALL, tid, 0);
    now_ns += 500 * MS;
    turn();
}

static double metric(const char *name, const char *service, const char *call)
{
    struct metric_set *set;
    double found = -1;
    assert_int_equal(metric_set_new(&set), 0);
    slow_calls->metrics(self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family family = metric_set_family(set, i);
        for (size_t k = 0; k < family.point_count && strcmp(family.name, name) == 0; k++) {
            const struct metric_point *point = &family.points[k];
            if (!call || (strcmp(point->labels[0].value, service) == 0 && strcmp(point->labels[1].value, call) == 0))
                found = point->value;
        }
    }
    metric_set_free(set);
    return found;
}

static void test_a_slow_wait_is_counted_and_an_event(void **state)
{
    (void)state;
    wait_in(SYS_fsync, NOBODY, 70, 812);
    wait_in(SYS_fsync, NOBODY, 70, 99);
    assert_string_equal(emitted,
                        "slow_calls.long: a thread (thread 2147483632) waited 812 ms in fsync; service.name=unknown; "
                        "process.pid=70; thread.id=2147483632; thread.name=; system_call=fsync; count=1\n");
    assert_true(metric("sonde_slow_calls_waits", "unknown", "fsync") == 1);
    assert_true(metric("sonde_slow_calls_wait_seconds", "unknown", "fsync") == 0.812);
    assert_true(metric("sonde_slow_calls_unread_seconds", NULL, NULL) == 0);
}

static void test_the_slowest_of_a_minute_are_events_and_all_are_counted(void **state)
{
    static const uint64_t waits_ms[] = {300, 200, 300, 400, 150};
    (void)state;
    for (size_t i = 0; i < array_size(waits_ms); i++)
        wait_in(SYS_unlink, NOBODY, 70, waits_ms[i]);
    now_ns += 60000 * MS;
    turn();
    wait_in(SYS_openat, NOBODY, 70, 100);
    const char *second = strstr(emitted, "waited 400 ms in unlink; 3 slow waits of unknown since its last event");
    assert_non_null(strstr(emitted, "waited 300 ms in unlink; service.name"));
    assert_non_null(second);
    assert_non_null(strstr(second, "count=3\nslow_calls.long"));
    assert_non_null(strstr(second, "waited 100 ms in openat; 2 slow waits of unknown since its last event"));
    assert_true(metric("sonde_slow_calls_waits", "unknown", "unlink") == 5);
    assert_true(metric("sonde_slow_calls_waits", "unknown", "openat") == 1);
}

static void test_the_event_has_the_thread_and_where_it_waited(void **state)
{
    const uint32_t tid = (uint32_t)getpid();
    struct stack_record stack = {.h = {.size_bytes = sizeof(stack)}};
    uint32_t wanted[RECENT_WAITS_PROCESSES];
    (void)state;
    wait_in(SYS_fsync, tid, 70, 200);
    assert_int_equal(noted_pid, 70);
    wait_in(SYS_fsync, tid, 71, 150); /* no event */
    assert_int_equal(noted_pid, 71);
    assert_int_equal(recent_waits_wanted(services.recent_waits, now_ns, wanted), 2);
    assert_int_equal(wanted[0] + wanted[1], 70 + 71);
    assert_null(strstr(emitted, "stack="));
    recent_waits_put_stack(services.recent_waits, 1, &stack);
    recent_waits_put(services.recent_waits, tid, now_ns + 1, now_ns + 1 + 250 * MS, 1);
    wait_in(SYS_fsync, tid, 70, 300);
    assert_non_null(strstr(emitted, "test-signals-sl (thread "));
    assert_non_null(strstr(emitted, "waited 300 ms in fsync, in write_journal: ext4_sync_file; 2 slow waits of "));
    assert_non_null(strstr(emitted, "service.name=test-signals-sl"));
    assert_non_null(strstr(emitted, "stack=schedule_[k] < ext4_sync_file_[k] < fsync < write_journal; count=2\n"));
}

static void test_time_that_was_overwritten_is_counted(void **state)
{
    (void)state;
    put(now_ns + 1, RECORDER_SWITCH, RECORDER_UNINTERRUPTIBLE, SYS_fsync, NOBODY, 0);
    now_ns += 900 * MS;
    for (unsigned i = 0; i < 2 * RINGS_RECORDS; i++)
        put(now_ns + i, RECORDER_SWITCH, 0, SYS_futex, 7, 0);
    put(now_ns + 2 * RINGS_RECORDS, RECORDER_WAKING, 0, RECORDER_NO_SYSCALL, NOBODY, 0);
    now_ns += 500 * MS;
    turn();
    assert_string_equal(emitted, "");
    const double unread_s = metric("sonde_slow_calls_unread_seconds", NULL, NULL);
    assert_true(unread_s >= 0.9 && unread_s < 0.901);
}

/* What happens while it is shed is not read later: the wait may have ended. */
static void test_nothing_is_read_while_it_is_shed(void **state)
{
    (void)state;
    slow_calls->shed(self, SOURCE_DETAIL_NO_OFF_CPU);
    wait_in(SYS_fsync, NOBODY, 70, 200);
    put(now_ns + 1, RECORDER_SWITCH, RECORDER_UNINTERRUPTIBLE, SYS_fsync, NOBODY, 0);
    now_ns += 500 * MS;
    turn();
    slow_calls->shed(self, SOURCE_DETAIL_FULL);
    turn();
    put(now_ns + 1, RECORDER_WAKING, RECORDER_IN_HARDIRQ, RECORDER_NO_SYSCALL, NOBODY, 0);
    now_ns += 500 * MS;
    turn();
    assert_string_equal(emitted, "");
    wait_in(SYS_fsync, NOBODY, 70, 200);
    assert_non_null(strstr(emitted, "waited 200 ms in fsync"));
}

static void test_calls_beyond_the_table_are_one(void **state)
{
    (void)state;
    for (uint32_t call = 0; call < 300; call++)
        wait_in(3000 + (int)call, NOBODY, 70, 100);
    assert_true(metric("sonde_slow_calls_waits", "unknown", "system call 3000") == 1);
    assert_true(metric("sonde_slow_calls_waits", "other", "other") == 300 - 255);
}

static void test_there_is_nothing_to_read_without_the_recorder(void **state)
{
    const struct signal *s = signal_named("slow_calls");
    const struct signal_services none = {0};
    void *nothing = &nothing;
    (void)state;
    assert_int_equal(s->create(&none, s->defaults, NULL, &nothing), 0);
    assert_null(nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_slow_wait_is_counted_and_an_event, begin, end),
        cmocka_unit_test_setup_teardown(test_the_slowest_of_a_minute_are_events_and_all_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(test_the_event_has_the_thread_and_where_it_waited, begin, end),
        cmocka_unit_test_setup_teardown(test_time_that_was_overwritten_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_is_read_while_it_is_shed, begin, end),
        cmocka_unit_test_setup_teardown(test_calls_beyond_the_table_are_one, begin, end),
        cmocka_unit_test(test_there_is_nothing_to_read_without_the_recorder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
