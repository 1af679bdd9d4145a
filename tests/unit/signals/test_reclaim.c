/* Records of long reclaim become events with a text and attributes. */
#include "signal_events_fixture.h"
#include "sources/reclaim/reclaim.h"

#include <linux/types.h>

#include "probes/reclaim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char emitted[1024];
static size_t events;

static void keep_event(void *pipeline, const struct node_event *event)
{
    (void)pipeline;
    events++;
    event_text(event, emitted, sizeof(emitted));
}

static struct reclaim_record record(enum reclaim_kind kind)
{
    struct reclaim_record r = {.h = {.size_bytes = sizeof(r), .kind = RECORD_RECLAIM, .time_ns = 9000000000ull},
                               .cgroup_id = 7,
                               .ns = 10100000,
                               .interval_ns = 12000000,
                               .kind = kind,
                               .comm = "uvicorn"};
    r.h.pid = r.h.tid = 6199;
    return r;
}

static void expect_event(enum reclaim_kind kind, const char *expected)
{
    const struct signal *reclaim = signal_named("reclaim");
    const struct signal_services services = {.emit_event = keep_event};
    const struct reclaim_record r = record(kind);
    void *self;
    assert_int_equal(reclaim->create(&services, reclaim->defaults, NULL, &self), 0);
    assert_true(signals_check_record(&r.h));
    reclaim->records->take(self, &r.h);
    assert_string_equal(emitted, expected);
    reclaim->destroy(self);
}

static void test_each_kind_is_an_event(void **state)
{
    (void)state;
    expect_event(RECLAIM_NODE, "reclaim.long: uvicorn (thread 6199) spent 10.1 ms of 12.0 ms in direct reclaim of the "
                               "node's memory; kind=node; process.pid=6199; thread.id=6199; thread.name=uvicorn");
    expect_event(RECLAIM_LIMIT, "reclaim.long: uvicorn (thread 6199) spent 10.1 ms of 12.0 ms in direct reclaim of its "
                                "cgroup; kind=limit; process.pid=6199; thread.id=6199; thread.name=uvicorn");
    expect_event(RECLAIM_COMPACTION,
                 "reclaim.long: uvicorn (thread 6199) spent 10.1 ms of 12.0 ms in compaction of the "
                 "node's memory; kind=compaction; process.pid=6199; thread.id=6199; thread.name=uvicorn");
}

static void test_events_are_limited(void **state)
{
    const struct signal *reclaim = signal_named("reclaim");
    const struct signal_services services = {.emit_event = keep_event};
    struct reclaim_record r = record(RECLAIM_NODE);
    void *self;
    (void)state;
    assert_int_equal(reclaim->create(&services, reclaim->defaults, NULL, &self), 0);
    events = 0;
    for (int i = 0; i < 100; i++)
        reclaim->records->take(self, &r.h);
    assert_int_equal(events, 20);
    r.h.time_ns += 1000000000;
    reclaim->records->take(self, &r.h);
    assert_int_equal(events, 21);
    reclaim->destroy(self);
}

static void test_malformed_records_are_rejected(void **state)
{
    struct reclaim_record unknown = record(RECLAIM_KINDS), unterminated = record(RECLAIM_NODE), small = unterminated;
    (void)state;
    memset(unterminated.comm, 'x', sizeof(unterminated.comm));
    small.h.size_bytes -= 8;
    assert_false(signals_check_record(&unknown.h));
    assert_false(signals_check_record(&unterminated.h));
    assert_false(signals_check_record(&small.h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_is_an_event),
        cmocka_unit_test(test_events_are_limited),
        cmocka_unit_test(test_malformed_records_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
