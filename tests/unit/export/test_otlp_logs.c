/* otlp_logs.c, read back field by field: times, severity, name, body, attributes; the resource, and limits of packets.
 * tests/e2e/test_events_export.py has a running agent. */
#include "export/otlp_logs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "lib/otlp/fields.h"
#include "protobuf_fields.h"

#define RECORDS_MAX 64

struct read_record {
    char name[64], body[128], severity[16], attributes[512]; /* "key=value;", and "key#number;" */
    uint64_t time, observed, severity_number;
};

static struct {
    struct read_record records[RECORDS_MAX];
    char resource[256];
    size_t count, packets, largest_bytes;
} read_back;

static void append(char *out, size_t size, const void *text, size_t length)
{
    const size_t used = strlen(out);
    assert_true(used + length < size);
    memcpy(out + used, text, length);
    out[used + length] = '\0';
}

static void read_pair(struct cursor c, char *out, size_t size)
{
    char number[24];
    for (struct protobuf_field f, value; next_field(&c, &f);) {
        if (f.number == KEY_VALUE_KEY) {
            append(out, size, f.inside.data, f.inside.size);
            continue;
        }
        assert_true(next_field(&f.inside, &value));
        if (value.number == ANY_VALUE_STRING) {
            append(out, size, "=", 1);
            append(out, size, value.inside.data, value.inside.size);
        } else {
            assert_int_equal(value.number, ANY_VALUE_INT);
            append(out, size, number,
                   (size_t)snprintf(number, sizeof(number), "#%llu", (unsigned long long)value.value));
        }
    }
    append(out, size, ";", 1);
}

static void read_record(struct cursor c)
{
    assert_true(read_back.count < RECORDS_MAX);
    struct read_record *r = &read_back.records[read_back.count++];
    for (struct protobuf_field f, text; next_field(&c, &f);)
        switch (f.number) {
        case 1: /* time_unix_nano; field numbers of logs.proto */
            r->time = f.value;
            break;
        case 2:
            r->severity_number = f.value;
            break;
        case 3:
            append(r->severity, sizeof(r->severity), f.inside.data, f.inside.size);
            break;
        case 5: /* body */
            assert_true(next_field(&f.inside, &text) && text.number == ANY_VALUE_STRING);
            append(r->body, sizeof(r->body), text.inside.data, text.inside.size);
            break;
        case 6:
            read_pair(f.inside, r->attributes, sizeof(r->attributes));
            break;
        case 11:
            r->observed = f.value;
            break;
        default:
            assert_int_equal(f.number, 12); /* event_name */
            append(r->name, sizeof(r->name), f.inside.data, f.inside.size);
        }
}

/* LogsData, as in logs.proto: resource_logs 1 {resource 1 {attributes 1}, scope_logs 2 {scope 1, log_records 2}}. */
static void take_packet(void *context, const struct otlp_logs_packet *packet)
{
    struct cursor c = cursor_make(packet->data, packet->size);
    const size_t before = read_back.count;
    (void)context;
    read_back.packets++;
    read_back.resource[0] = '\0';
    read_back.largest_bytes = packet->size > read_back.largest_bytes ? packet->size : read_back.largest_bytes;
    for (struct protobuf_field resource_logs, f, inner; next_field(&c, &resource_logs);) {
        assert_int_equal(resource_logs.number, 1);
        while (next_field(&resource_logs.inside, &f))
            while (next_field(&f.inside, &inner))
                if (f.number == 1)
                    read_pair(inner.inside, read_back.resource, sizeof(read_back.resource));
                else if (inner.number == 2)
                    read_record(inner.inside);
    }
    assert_int_equal(read_back.count - before, packet->records);
}

static uint64_t write_events(const struct node_event *events, size_t count, size_t max_bytes)
{
    const struct otlp_logs_options options = {
        .packet_max_bytes = max_bytes, .host_name = "node", .attributes = "team=t"};
    struct kept_node_event *kept[RECORDS_MAX];
    uint64_t too_large = 0;
    memset(&read_back, 0, sizeof(read_back));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(node_event_keep(&events[i], 5000 + i, &kept[i]), 0);
    assert_int_equal(otlp_logs_write(kept, count, &options, &(struct otlp_logs_sink){NULL, take_packet}, &too_large),
                     0);
    for (size_t i = 0; i < count; i++)
        free(kept[i]);
    assert_true(read_back.largest_bytes <= max_bytes);
    return too_large;
}

static void test_record_of_an_event(void **state)
{
    static const struct node_event_attribute attributes[] = {
        {"process.pid", "4711"}, {"thread.name", "a\nb\xff"}, {"cgroup", ""}, {"reason", "12"}};
    const struct node_event event = {.time_ns = 7,
                                     .duration_ns = 30,
                                     .name = "runqueue.delayed",
                                     .text = "a\x1b[1m waited",
                                     .attributes = attributes,
                                     .attribute_count = array_size(attributes)};
    const struct read_record *r = &read_back.records[0];
    (void)state;
    assert_int_equal(write_events(&event, 1, 1 << 20), 0);
    assert_int_equal(read_back.count, 1);
    assert_int_equal(r->time, 5000);
    assert_true(r->observed > 1600000000000000000);
    assert_string_equal(r->name, "runqueue.delayed");
    assert_string_equal(r->body, "a?[1m waited");
    assert_string_equal(r->severity, "WARN");
    assert_int_equal(r->severity_number, 13);
    assert_string_equal(r->attributes, "sonde.duration_ns#30;process.pid#4711;thread.name=a?b\xef\xbf\xbd;reason=12;");
    assert_string_equal(read_back.resource, "service.name=sonde;service.version=" SONDE_VERSION
                                            ";service.instance.id=node;host.name=node;team=t;");
}

static void test_what_failed_is_an_error(void **state)
{
    const struct node_event event = {.name = "oom.killed", .text = "killed"};
    (void)state;
    assert_int_equal(write_events(&event, 1, 1 << 20), 0);
    assert_string_equal(read_back.records[0].severity, "ERROR");
    assert_int_equal(read_back.records[0].severity_number, 17);
    assert_string_equal(read_back.records[0].attributes, "");
}

static void test_packets_are_bounded(void **state)
{
    char text[600];
    struct node_event events[RECORDS_MAX];
    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (size_t i = 0; i < RECORDS_MAX; i++)
        events[i] = (struct node_event){.name = "a.b", .text = i == 9 ? text : "short"};
    assert_int_equal(write_events(events, RECORDS_MAX, 600), 1);
    assert_int_equal(read_back.count, RECORDS_MAX - 1);
    assert_true(read_back.packets > 4);
    assert_int_equal(read_back.records[9].time, 5010);
}

static void test_no_events_are_no_packet(void **state)
{
    (void)state;
    assert_int_equal(write_events(NULL, 0, 600), 0);
    assert_int_equal(read_back.packets, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_of_an_event),
        cmocka_unit_test(test_what_failed_is_an_error),
        cmocka_unit_test(test_packets_are_bounded),
        cmocka_unit_test(test_no_events_are_no_packet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
