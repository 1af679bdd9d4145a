/* Records of losses of the network become events with a text and attributes; and how the kernel's reasons count. */
#include "signal_events_fixture.h"
#include "sources/drops/drops.h"
#include "sources/drops/drops_reasons.h"

#include "base/cleanup.h"

#include "probes/drops.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char emitted[1024];
static size_t emitted_count;

static void keep_event(void *pipeline, const struct node_event *event)
{
    (void)pipeline;
    emitted_count++;
    event_text(event, emitted, sizeof(emitted));
}

static struct drops_record record(enum drops_event event, uint64_t number)
{
    struct drops_record r = {.h = {.size_bytes = sizeof(r), .kind = RECORD_DROPS, .time_ns = 9000000000ull},
                             .event = event,
                             .count = number,
                             .interval_ns = 5000000000ull};
    return r;
}

static void expect_event(const struct drops_record *r, const char *expected)
{
    const struct signal *drops = signal_named("drops");
    const struct signal_services services = {.emit_event = keep_event};
    void *self;
    assert_int_equal(drops->create(&services, drops->defaults, NULL, &self), 0);
    assert_true(signals_check_record(&r->h));
    drops->records->take(self, &r->h);
    assert_string_equal(emitted, expected);
    drops->destroy(self);
}

static void test_each_kind_of_record_is_an_event(void **state)
{
    struct drops_record packets = record(DROPS_EVENT_PACKETS, 913), again = record(DROPS_EVENT_RETRANSMISSIONS, 214),
                        refused = record(DROPS_EVENT_LISTEN, 37);
    (void)state;
    snprintf(packets.name, sizeof(packets.name), "SOCKET_RCVBUFF");
    snprintf(packets.cgroup, sizeof(packets.cgroup), "/statsd");
    expect_event(&packets, "drops.packets: the kernel dropped 913 packets in 5.00 s of /statsd: SOCKET_RCVBUFF; "
                           "count=913; cgroup=/statsd; reason=SOCKET_RCVBUFF");
    again.peer = (struct drops_peer){.family = AF_INET, .port = 5432, .address = {10, 0, 0, 3}};
    expect_event(&again, "drops.retransmission_burst: TCP sent 214 segments to 10.0.0.3:5432 again in 5.00 s: packets "
                         "on the way there, or their acknowledgements, are lost or late; count=214; "
                         "network.peer.address=10.0.0.3:5432");
    refused.h.pid = 6199;
    refused.port = 8080;
    refused.backlog = 129;
    refused.backlog_max = 128;
    snprintf(refused.name, sizeof(refused.name), "gunicorn");
    expect_event(&refused,
                 "drops.listen_overflow: port 8080 of gunicorn (process 6199) refused 37 connections in 5.00 "
                 "s; now 129 of at most 128 wait to be accepted: the program accepts too slowly, or its backlog "
                 "is too small; count=37; process.pid=6199; server.port=8080; process.command=gunicorn");
}

/* Peers without an answer may be hundreds; the one listener that refuses connections is the news. */
static void test_many_events_of_one_kind_do_not_hide_another(void **state)
{
    const struct signal *drops = signal_named("drops");
    const struct signal_services services = {.emit_event = keep_event};
    const struct drops_record again = record(DROPS_EVENT_RETRANSMISSIONS, 214),
                              refused = record(DROPS_EVENT_LISTEN, 37);
    void *self;
    (void)state;
    assert_int_equal(drops->create(&services, drops->defaults, NULL, &self), 0);
    emitted_count = 0;
    for (int i = 0; i < 100; i++)
        drops->records->take(self, &again.h);
    assert_in_range(emitted_count, 1, 99);
    drops->records->take(self, &refused.h);
    assert_non_null(strstr(emitted, "drops.listen_overflow"));
    drops->destroy(self);
}

static void test_malformed_records_are_rejected(void **state)
{
    struct drops_record unknown = record(DROPS_EVENTS, 1), unterminated = record(DROPS_EVENT_PACKETS, 1),
                        small = unterminated;
    (void)state;
    memset(unterminated.name, 'x', sizeof(unterminated.name));
    small.h.size_bytes -= 8;
    assert_false(signals_check_record(&unknown.h));
    assert_false(signals_check_record(&unterminated.h));
    assert_false(signals_check_record(&small.h));
}

static void test_reasons_have_a_class(void **state)
{
    static const char *const expected[] = {"NOT_SPECIFIED", "NO_SOCKET", "TCP_OLD_ACK", "SOCKET_CLOSE", ""};
    (void)state;
    for (size_t i = 0; i < array_size(expected); i++)
        assert_int_equal(drops_class_of(expected[i]), DROPS_EXPECTED);
    assert_int_equal(drops_class_of("NETFILTER_DROP"), DROPS_POLICY);
    assert_int_equal(drops_class_of("SOCKET_RCVBUFF"), DROPS_FAULT);
    assert_int_equal(drops_class_of("A_REASON_OF_A_LATER_KERNEL"), DROPS_FAULT);
}

static void test_peers_are_written_as_addresses(void **state)
{
    static const struct drops_peer none = {0}, client = {.family = AF_INET, .address = {10, 0, 0, 7}},
                                   local = {.family = AF_INET6, .port = 80, .address = {[15] = 1}};
    char text[DROPS_PEER_BYTES];
    (void)state;
    assert_string_equal(drops_peer_text(&none, text), "other");
    assert_string_equal(drops_peer_text(&client, text), "10.0.0.7");
    assert_string_equal(drops_peer_text(&local, text), "[::1]:80");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_of_record_is_an_event),
        cmocka_unit_test(test_many_events_of_one_kind_do_not_hide_another),
        cmocka_unit_test(test_malformed_records_are_rejected),
        cmocka_unit_test(test_reasons_have_a_class),
        cmocka_unit_test(test_peers_are_written_as_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
