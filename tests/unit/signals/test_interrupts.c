/* Records of long interrupts and softirqs become events with a text and attributes. */
#include "signal_events_fixture.h"
#include "sources/interrupt_names.h"
#include "sources/interrupts/interrupts.h"

#include "probes/interrupts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NET_RX 3

static char emitted[1024];

static void keep_event(void *pipeline, const struct node_event *event)
{
    (void)pipeline;
    event_text(event, emitted, sizeof(emitted));
}

static struct interrupt_record record(uint32_t number, uint32_t tid, const char *comm, const char *name)
{
    struct interrupt_record r = {.h = {.size_bytes = sizeof(r), .kind = RECORD_INTERRUPT, .time_ns = 9000000000ull},
                                 .number = number,
                                 .cpu = 1,
                                 .duration_ns = 7900000};
    r.h.pid = r.h.tid = tid;
    snprintf(r.comm, sizeof(r.comm), "%s", comm);
    snprintf(r.name, sizeof(r.name), "%s", name);
    return r;
}

static void expect_event(const struct interrupt_record *r, const char *expected)
{
    const struct signal *interrupts = signal_named("interrupts");
    const struct signal_services services = {.emit_event = keep_event};
    void *self;
    assert_int_equal(interrupts->create(&services, interrupts->defaults, NULL, &self), 0);
    assert_true(signals_check_record(&r->h));
    interrupts->records->take(self, &r->h);
    assert_string_equal(emitted, expected);
    interrupts->destroy(self);
}

static void test_each_kind_is_an_event(void **state)
{
    const struct interrupt_record softirq = record(NET_RX, 6199, "nginx", ""),
                                  thread = record(NET_RX, 21, "ksoftirqd/1", ""),
                                  line = record(INTERRUPT_FIRST_LINE + 36, 0, "swapper/1", "virtio1-req.0"),
                                  vector = record(INTERRUPT_FIRST_VECTOR + INTERRUPT_LOCAL_TIMER, 0, "swapper/1", "");
    (void)state;
    expect_event(&softirq, "interrupts.long: CPU 1 ran softirq NET_RX for 7.90 ms, which interrupted nginx (thread "
                           "6199); cpu=1; softirq=NET_RX; process.pid=6199; thread.id=6199; thread.name=nginx");
    expect_event(&thread, "interrupts.long: CPU 1 ran softirq NET_RX for 7.90 ms, in ksoftirqd/1 (thread 21); cpu=1; "
                          "softirq=NET_RX; process.pid=21; thread.id=21; thread.name=ksoftirqd/1");
    expect_event(&line, "interrupts.long: CPU 1 ran the handler of interrupt virtio1-req.0 for 7.90 ms; cpu=1; "
                        "interrupt=virtio1-req.0; irq=36");
    expect_event(&vector, "interrupts.long: CPU 1 ran the handler of interrupt local timer for 7.90 ms; cpu=1; "
                          "interrupt=local timer");
}

static void test_malformed_records_are_rejected(void **state)
{
    struct interrupt_record unknown = record(INTERRUPT_FIRST_VECTOR + INTERRUPTS_VECTORS, 0, "", ""),
                            unterminated = record(NET_RX, 1, "x", ""), unnamed = unterminated, small = unterminated;
    (void)state;
    memset(unterminated.comm, 'x', sizeof(unterminated.comm));
    memset(unnamed.name, 'x', sizeof(unnamed.name));
    small.h.size_bytes -= 8;
    assert_false(signals_check_record(&unknown.h));
    assert_false(signals_check_record(&unterminated.h));
    assert_false(signals_check_record(&unnamed.h));
    assert_false(signals_check_record(&small.h));
}

static void test_every_number_has_a_name(void **state)
{
    char name[INTERRUPT_NAME_BYTES];
    (void)state;
    assert_string_equal(interrupt_name_read(NET_RX, name), "NET_RX");
    assert_string_equal(interrupt_name_read(INTERRUPT_FIRST_VECTOR + INTERRUPT_CALL_FUNCTION, name), "call function");
    assert_string_equal(interrupt_name_read(INTERRUPT_FIRST_LINE + 999999, name), "interrupt 999999");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_is_an_event),
        cmocka_unit_test(test_malformed_records_are_rejected),
        cmocka_unit_test(test_every_number_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
