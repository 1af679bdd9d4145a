/* otlp_spans.c, read back field by field: IDs, attributes, events, links, outcome; resources and limits of packets.
 * tests/e2e/test_spans.py has a running agent, the official messages and the Collector. */
#include "export/otlp_spans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/otlp/fields.h"
#include "protobuf_fields.h"

#define SPANS_MAX 64

struct read_span {
    char service[32], name[64], trace_id[33], id[17], parent_id[17], link[64];
    char attributes[1024], events[1024]; /* "key=value;" */
    uint64_t kind, start_ns, end_ns, status, flags;
};

static struct {
    struct read_span spans[SPANS_MAX];
    size_t count, packets, resources, largest_bytes;
} read_back;

static void append(char *out, size_t size, const char *text, size_t length)
{
    const size_t used = strlen(out);
    assert_true(used + length < size);
    memcpy(out + used, text, length);
    out[used + length] = '\0';
}

static void append_hex(char *out, size_t size, struct cursor c)
{
    char digits[3];
    while (cursor_left(&c)) {
        snprintf(digits, sizeof(digits), "%02x", cursor_u8(&c));
        append(out, size, digits, 2);
    }
}

static void append_bytes(char *out, size_t size, struct cursor c)
{
    append(out, size, (const char *)c.data, c.size);
}

static void read_pair(struct cursor c, char *out, size_t size)
{
    char number[24];
    for (struct protobuf_field f, value; next_field(&c, &f);) {
        if (f.number == KEY_VALUE_KEY) {
            append_bytes(out, size, f.inside);
            append(out, size, "=", 1);
            continue;
        }
        assert_true(next_field(&f.inside, &value));
        if (value.number == ANY_VALUE_STRING)
            append_bytes(out, size, value.inside);
        else
            append(out, size, number,
                   (size_t)snprintf(number, sizeof(number), "%llu", (unsigned long long)value.value));
    }
    append(out, size, ";", 1);
}

static void read_event(struct cursor c, char *out, size_t size)
{
    char time[24];
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (f.number == EVENT_TIME)
            append(out, size, time, (size_t)snprintf(time, sizeof(time), "@%llu ", (unsigned long long)f.value));
        else if (f.number == EVENT_NAME) {
            append_bytes(out, size, f.inside);
            append(out, size, ":", 1);
        } else
            read_pair(f.inside, out, size);
    }
    append(out, size, "|", 1);
}

static void read_span(struct cursor c, const char *service)
{
    assert_true(read_back.count < SPANS_MAX);
    struct read_span *s = &read_back.spans[read_back.count++];
    snprintf(s->service, sizeof(s->service), "%s", service);
    for (struct protobuf_field f; next_field(&c, &f);)
        switch (f.number) {
        case SPAN_TRACE_ID:
            append_hex(s->trace_id, sizeof(s->trace_id), f.inside);
            break;
        case SPAN_ID:
            append_hex(s->id, sizeof(s->id), f.inside);
            break;
        case SPAN_PARENT_ID:
            append_hex(s->parent_id, sizeof(s->parent_id), f.inside);
            break;
        case SPAN_NAME:
            append_bytes(s->name, sizeof(s->name), f.inside);
            break;
        case SPAN_KIND:
            s->kind = f.value;
            break;
        case SPAN_START:
            s->start_ns = f.value;
            break;
        case SPAN_END:
            s->end_ns = f.value;
            break;
        case SPAN_ATTRIBUTES:
            read_pair(f.inside, s->attributes, sizeof(s->attributes));
            break;
        case SPAN_EVENTS:
            read_event(f.inside, s->events, sizeof(s->events));
            break;
        case SPAN_LINKS:
            for (struct protobuf_field l; next_field(&f.inside, &l);)
                append_hex(s->link, sizeof(s->link), l.inside);
            break;
        case SPAN_STATUS:
            for (struct protobuf_field l; next_field(&f.inside, &l);)
                s->status = l.value;
            break;
        default:
            assert_int_equal(f.number, SPAN_FLAGS);
        }
}

static void take_packet(void *context, const struct otlp_spans_packet *packet)
{
    struct cursor c = cursor_make(packet->data, packet->size);
    const size_t before = read_back.count;
    (void)context;
    read_back.packets++;
    read_back.largest_bytes = packet->size > read_back.largest_bytes ? packet->size : read_back.largest_bytes;
    for (struct protobuf_field resource_spans, f, inner; next_field(&c, &resource_spans);) {
        char resource[256] = "", *service = resource;
        read_back.resources++;
        while (next_field(&resource_spans.inside, &f))
            while (next_field(&f.inside, &inner)) {
                if (f.number == RESOURCE_SPANS_RESOURCE)
                    read_pair(inner.inside, resource, sizeof(resource));
                else if (inner.number == SCOPE_SPANS_SPANS) {
                    assert_true(!resource[0] || !strstr(resource, "=no;"));
                    service = resource + strlen("service.name=");
                    service[strcspn(service, ";")] = '\0';
                    read_span(inner.inside, service);
                }
            }
    }
    assert_int_equal(read_back.count - before, packet->spans);
}

static uint64_t write_spans(struct request *const *requests, size_t count, size_t max_bytes)
{
    const struct otlp_spans_options options = {
        .packet_max_bytes = max_bytes, .host_name = "node", .attributes = "team=t,service.name=no"};
    uint64_t too_large = 0;
    memset(&read_back, 0, sizeof(read_back));
    assert_int_equal(
        otlp_spans_write(requests, count, &options, &(struct otlp_spans_sink){NULL, take_packet}, &too_large), 0);
    assert_true(read_back.largest_bytes <= max_bytes);
    return too_large;
}

static struct request plain(uint64_t id, const char *service)
{
    return (struct request){.id = id,
                            .start_unix_ns = 1000,
                            .duration_ns = 30,
                            .service = service,
                            .unit = "",
                            .container_id = "",
                            .method = "GET",
                            .route = "/a",
                            .peer = "127.0.0.1:4711",
                            .cause = "",
                            .upstream = "",
                            .upstream_call = "",
                            .status = 200,
                            .span = {.id = {0x11, 0x22, id}}};
}

static void expect_attribute(const struct read_span *s, const char *pair)
{
    if (!strstr(s->attributes, pair))
        fail_msg("%s is not in %s", pair, s->attributes);
}

static void test_span_of_a_request(void **state)
{
    struct request r = plain(0x33, "web");
    const struct request_segment segments[] = {{.duration_ns = 10,
                                                .kind = REQUEST_PART_CPU,
                                                .tid = 5,
                                                .thread = "w",
                                                .detail = "",
                                                .notes = "",
                                                .process = ""},
                                               {.start_ns = 10,
                                                .duration_ns = 20,
                                                .kind = REQUEST_PART_LOCK,
                                                .owner = REQUEST_OWNER_OTHER,
                                                .is_inferred = true,
                                                .thread = "",
                                                .detail = "d",
                                                .notes = "n",
                                                .process = "p"}};
    (void)state;
    r.segments = segments;
    r.segment_count = 2;
    r.parts[0] = (struct request_part){.kind = REQUEST_PART_LOCK, .duration_ns = 20};
    r.parts[1] = (struct request_part){.kind = REQUEST_PART_CPU, .duration_ns = 10};
    r.part_count = 2;
    r.port = 80;
    r.weight = 4;
    r.cause = "because";
    r.span.parent_id = 0x44;
    r.span.is_remote = true;
    r.link = (struct trace_link){0x55, 0x66, 0x77};
    assert_int_equal(write_spans(&(struct request *){&r}, 1, 1 << 20), 0);
    assert_int_equal(read_back.count, 1);
    const struct read_span *s = &read_back.spans[0];
    assert_string_equal(s->service, "web");
    assert_string_equal(s->name, "GET /a");
    assert_string_equal(s->trace_id, "00000000000000110000000000000022");
    assert_string_equal(s->id, "0000000000000033");
    assert_string_equal(s->parent_id, "0000000000000044");
    assert_string_equal(s->link, "000000000000005500000000000000660000000000000077");
    assert_true(s->kind == SPAN_KIND_SERVER && s->start_ns == 1000 && s->end_ns == 1030 && s->status == 0);
    static const char *const pairs[] = {"http.request.method=GET;",
                                        "http.route=/a;",
                                        "url.path=/a;",
                                        "url.scheme=http;",
                                        "http.response.status_code=200;",
                                        "server.port=80;",
                                        "client.address=127.0.0.1;",
                                        "network.peer.address=127.0.0.1;",
                                        "network.peer.port=4711;",
                                        "sonde.sampling.weight=4;",
                                        "sonde.cause=because;",
                                        "sonde.component.lock_ns=20;",
                                        "sonde.component.cpu_ns=10;"};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        expect_attribute(s, pairs[i]);
    assert_null(strstr(s->attributes, "error.type"));
    assert_string_equal(s->events, "@1000 cpu:sonde.duration_ns=10;sonde.owner=this;thread.id=5;thread.name=w;|"
                                   "@1010 lock:sonde.duration_ns=20;sonde.owner=other;sonde.inferred=1;sonde.process=p;"
                                   "sonde.detail=d;sonde.notes=n;|");
}

static void test_failures(void **state)
{
    struct request failed = plain(1, "a"), silent = plain(2, "a"), missing = plain(3, "a");
    (void)state;
    failed.status = 503;
    silent.status = 0;
    silent.peer = "[fe80::1]:5";
    missing.status = 404;
    missing.method = "";
    assert_int_equal(write_spans((struct request *[]){&failed, &silent, &missing}, 3, 1 << 20), 0);
    assert_int_equal(read_back.spans[0].status, STATUS_CODE_ERROR);
    expect_attribute(&read_back.spans[0], "error.type=503;");
    assert_int_equal(read_back.spans[1].status, STATUS_CODE_ERROR);
    expect_attribute(&read_back.spans[1], "error.type=no_reply;");
    expect_attribute(&read_back.spans[1], "client.address=fe80::1;");
    assert_null(strstr(read_back.spans[1].attributes, "status_code"));
    assert_int_equal(read_back.spans[2].status, 0);
    expect_attribute(&read_back.spans[2], "http.request.method=_OTHER;");
    assert_string_equal(read_back.spans[2].name, "HTTP /a");
}

static void test_scheme_of_a_request_over_tls(void **state)
{
    struct request r = plain(1, "a");
    (void)state;
    r.is_tls = true;
    assert_int_equal(write_spans(&(struct request *){&r}, 1, 1 << 20), 0);
    expect_attribute(&read_back.spans[0], "url.scheme=https;");
}

/* The program's own span is the parent where the request named no caller: it needs no link. */
static void test_parent_is_not_linked(void **state)
{
    struct request r = plain(1, "a");
    (void)state;
    r.link = (struct trace_link){0x11, 0x22, 0x77};
    r.span.parent_id = 0x77;
    assert_int_equal(write_spans(&(struct request *){&r}, 1, 1 << 20), 0);
    assert_string_equal(read_back.spans[0].parent_id, "0000000000000077");
    assert_string_equal(read_back.spans[0].link, "");
}

static void test_requests_of_a_service_share_a_resource(void **state)
{
    struct request a = plain(1, "a"), b = plain(2, "a"), c = plain(3, "b"), none = plain(4, "b");
    (void)state;
    none.span = (struct request_span){0};
    assert_int_equal(write_spans((struct request *[]){&a, &b, &c, &none}, 4, 1 << 20), 0);
    assert_int_equal(read_back.count, 3);
    assert_int_equal(read_back.packets, 1);
    assert_int_equal(read_back.resources, 2);
    assert_string_equal(read_back.spans[2].service, "b");
    assert_int_equal(write_spans(NULL, 0, 1 << 20), 0);
    assert_int_equal(read_back.packets, 0);
}

static void test_packets_are_bounded(void **state)
{
    struct request list[20], *requests[20];
    char text[3000];
    (void)state;
    for (size_t i = 0; i < 20; i++) {
        list[i] = plain(i + 1, i % 3 ? "a" : "b");
        requests[i] = &list[i];
    }
    assert_int_equal(write_spans(requests, 20, 1500), 0);
    assert_int_equal(read_back.count, 20);
    assert_true(read_back.packets > 5);
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    list[7].cause = text;
    assert_int_equal(write_spans(requests, 20, 1500), 1);
    assert_int_equal(read_back.count, 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_span_of_a_request),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_scheme_of_a_request_over_tls),
        cmocka_unit_test(test_parent_is_not_linked),
        cmocka_unit_test(test_requests_of_a_service_share_a_resource),
        cmocka_unit_test(test_packets_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
