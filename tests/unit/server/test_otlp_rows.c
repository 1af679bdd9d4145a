/* Requests as rows: values of all kinds, rejected items, invalid and hostile messages. tests/e2e/test_server.py has the
 * engine read the rows. */
#include "server/otlp_rows.h"

#include "base/protobuf.h"
#include "lib/otlp/fields.h"
#include "server/otlp_attributes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NOW_NS 1700000000000000000ull
#define DAY_NS 86400000000000ull

static struct otlp_rows new_rows(void)
{
    return (struct otlp_rows){.from_ns = NOW_NS - 30 * DAY_NS, .to_ns = NOW_NS + DAY_NS};
}

static void put_text(struct buf *b, uint32_t field, const char *text)
{
    protobuf_put_bytes(b, field, text, strlen(text));
}

/* A request with one resource (service "shop"), one scope and one item. */
static void put_request(struct buf *out, struct buf *item)
{
    struct buf value = {0}, pair = {0}, resource = {0}, scope = {0}, one = {0};
    put_text(&value, ANY_VALUE_STRING, "shop");
    put_text(&pair, KEY_VALUE_KEY, "service.name");
    protobuf_put_message(&pair, KEY_VALUE_VALUE, &value);
    protobuf_put_message(&resource, RESOURCE_ATTRIBUTES, &pair);
    protobuf_put_message(&one, RESOURCE_SPANS_RESOURCE, &resource);
    protobuf_put_message(&scope, SCOPE_SPANS_SPANS, item);
    protobuf_put_message(&one, RESOURCE_SPANS_SCOPE_SPANS, &scope);
    protobuf_put_message(out, TRACES_RESOURCE_SPANS, &one);
    buf_clear(&value);
    buf_clear(&pair);
    buf_clear(&resource);
    buf_clear(&scope);
    buf_clear(&one);
}

static void put_span(struct buf *item, uint64_t start_ns)
{
    protobuf_put_bytes(item, SPAN_TRACE_ID, "\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10", 16);
    protobuf_put_bytes(item, SPAN_ID, "\1\2\3\4\5\6\7\10", 8);
    protobuf_put_fixed64(item, SPAN_START, start_ns);
    protobuf_put_fixed64(item, SPAN_END, start_ns + 5);
}

static int decode(struct buf *item, const struct otlp_signal *signal, struct otlp_rows *rows)
{
    _cleanup_buf_ struct buf request = {0};
    put_request(&request, item);
    buf_clear(item);
    return signal->decode(cursor_make(request.data, request.size), rows);
}

static void test_span_is_a_row(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows rows = new_rows();
    struct buf item = {0};
    put_span(&item, NOW_NS);
    put_text(&item, SPAN_NAME, "GET \xff/");
    protobuf_put_number(&item, SPAN_KIND, 2);
    assert_int_equal(decode(&item, &otlp_traces, &rows), 0);
    static const char expected[] = "\x00\x00\xa4\xb9\x1f\x9a\x97\x17" /* NOW_NS */
                                   "\x20"
                                   "01020304050607080102030405060708"
                                   "\x10"
                                   "0102030405060708"
                                   "\x00\x00"
                                   "\x08GET \xef\xbf\xbd/"
                                   "\x06Server"
                                   "\x04shop"
                                   "\x01\x0cservice.name\x04shop"
                                   "\x00\x00\x00"
                                   "\x05\x00\x00\x00\x00\x00\x00\x00"
                                   "\x05Unset\x00"
                                   "\x00\x00\x00\x00\x00\x00\x00";
    const struct buf *row = &rows.tables[TABLE_TRACES];
    assert_int_equal(rows.counts[TABLE_TRACES], 1);
    assert_int_equal(row->size, sizeof(expected) - 1);
    const uint64_t now_ns = NOW_NS;
    assert_memory_equal(row->data, &now_ns, 8);
    assert_memory_equal(row->data + 8, expected + 8, row->size - 8);
}

static void test_items_are_rejected_alone(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows rows = new_rows();
    static const uint64_t times_ns[] = {0, NOW_NS - 31 * DAY_NS, NOW_NS + 2 * DAY_NS, UINT64_MAX, NOW_NS - 29 * DAY_NS};
    struct buf item = {0};
    for (size_t i = 0; i < 5; i++) {
        put_span(&item, times_ns[i]);
        assert_int_equal(decode(&item, &otlp_traces, &rows), 0);
    }
    protobuf_put_fixed64(&item, SPAN_START, NOW_NS);
    assert_int_equal(decode(&item, &otlp_traces, &rows), 0); /* without an id */
    assert_int_equal(rows.counts[TABLE_TRACES], 1);
    assert_int_equal(rows.rejected, 5);
    assert_non_null(strstr(rows.why, "longer ago"));
}

static void test_invalid_messages(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } items[] = {
        {"\x08\x01", 2},                                  /* a trace id as a varint */
        {"\x3a\x01x", 3},                                 /* a start that is text */
        {"\x4a\x05\x0a\x01", 4},                          /* an attribute that ends early */
        {"\x4a\x02\x0b\x00", 4},                          /* a group */
        {"\x7a\x02\x18", 3},                              /* a status that ends early */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10}, /* an endless number */
    };
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        _cleanup_otlp_rows_ struct otlp_rows rows = new_rows();
        struct buf item = {0};
        put_span(&item, NOW_NS);
        buf_append(&item, items[i].bytes, items[i].size);
        assert_int_equal(decode(&item, &otlp_traces, &rows), -EBADMSG);
    }
}

/* ---- values ---- */

static const char *value_text(struct buf *any, struct buf *out)
{
    buf_clear(out);
    assert_int_equal(otlp_put_value(out, cursor_make(any->data, any->size)), 0);
    buf_clear(any);
    buf_putc(out, '\0');
    assert_int_equal((uint8_t)out->data[0], out->size - 2);
    return out->data + 1;
}

static void put_double(struct buf *any, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    protobuf_put_fixed64(any, ANY_VALUE_DOUBLE, bits);
}

static void test_values_are_text(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf any = {0}, out = {0}, list = {0}, pair = {0}, map = {0};
    put_text(&any, ANY_VALUE_STRING, "text");
    assert_string_equal(value_text(&any, &out), "text");
    protobuf_put_oneof_number(&any, ANY_VALUE_INT, (uint64_t)-5);
    assert_string_equal(value_text(&any, &out), "-5");
    protobuf_put_oneof_number(&any, ANY_VALUE_BOOL, 0);
    assert_string_equal(value_text(&any, &out), "false");
    put_double(&any, 0.1);
    assert_string_equal(value_text(&any, &out), "0.1");
    put_double(&any, 1.0 / 3);
    assert_string_equal(value_text(&any, &out), "0.3333333333333333");
    protobuf_put_bytes(&any, ANY_VALUE_BYTES, "\0\1\2\3", 4);
    assert_string_equal(value_text(&any, &out), "AAECAw==");
    put_text(&any, ANY_VALUE_STRING, "a\"\n");
    protobuf_put_message(&list, ARRAY_VALUES, &any);
    protobuf_put_message(&list, ARRAY_VALUES, &any); /* an empty value */
    put_text(&pair, KEY_VALUE_KEY, "k");
    protobuf_put_oneof_number(&any, ANY_VALUE_INT, 1);
    protobuf_put_message(&pair, KEY_VALUE_VALUE, &any);
    protobuf_put_message(&map, ARRAY_VALUES, &pair);
    protobuf_put_message(&any, ANY_VALUE_MAP, &map);
    protobuf_put_message(&list, ARRAY_VALUES, &any);
    protobuf_put_message(&any, ANY_VALUE_ARRAY, &list);
    assert_string_equal(value_text(&any, &out), "[\"a\\\"\\u000a\",null,{\"k\":1}]");
}

static void test_deep_values_are_refused(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf any = {0}, list = {0}, out = {0};
    for (unsigned depth = 0; depth <= OTLP_DEPTH_MAX; depth++) {
        assert_int_equal(otlp_put_value(&out, cursor_make(any.data, any.size)), 0);
        protobuf_put_message(&list, ARRAY_VALUES, &any);
        protobuf_put_message(&any, ANY_VALUE_ARRAY, &list);
    }
    assert_int_equal(otlp_put_value(&out, cursor_make(any.data, any.size)), -ELOOP);
}

/* A large resource is repeated in the row of each of many small spans. */
static void test_rows_have_a_limit(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows rows = new_rows();
    _cleanup_buf_ struct buf item = {0}, request = {0}, text = {0}, value = {0}, pair = {0}, resource = {0};
    struct buf scope = {0}, one = {0};
    for (size_t i = 0; i < 1 << 20; i++)
        buf_putc(&text, 'a');
    protobuf_put_bytes(&value, ANY_VALUE_STRING, text.data, text.size);
    put_text(&pair, KEY_VALUE_KEY, "large");
    protobuf_put_message(&pair, KEY_VALUE_VALUE, &value);
    protobuf_put_message(&resource, RESOURCE_ATTRIBUTES, &pair);
    protobuf_put_message(&one, RESOURCE_SPANS_RESOURCE, &resource);
    for (size_t i = 0; i < 100; i++) {
        put_span(&item, NOW_NS);
        protobuf_put_message(&scope, SCOPE_SPANS_SPANS, &item);
    }
    protobuf_put_message(&one, RESOURCE_SPANS_SCOPE_SPANS, &scope);
    protobuf_put_message(&request, TRACES_RESOURCE_SPANS, &one);
    assert_int_equal(otlp_traces.decode(cursor_make(request.data, request.size), &rows), -EFBIG);
    buf_clear(&scope);
    buf_clear(&one);
}

/* `count` points of a gauge and as many of a sum, each with an attribute of `size` bytes. */
static int decode_points(size_t count, size_t size, struct otlp_rows *rows)
{
    static const uint32_t kinds[] = {METRIC_DATA_GAUGE, METRIC_DATA_SUM};
    _cleanup_buf_ struct buf item = {0}, data = {0}, point = {0}, pair = {0};
    _cleanup_free_ char *text = calloc(1, size + 1);
    memset(text, 'a', size);
    for (size_t kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < count; i++) {
            protobuf_put_fixed64(&point, POINT_TIME, NOW_NS);
            put_text(&pair, KEY_VALUE_KEY, text);
            protobuf_put_message(&point, NUMBER_POINT_ATTRIBUTES, &pair);
            protobuf_put_message(&data, METRIC_DATA_POINTS, &point);
        }
        protobuf_put_message(&item, kinds[kind], &data);
    }
    return decode(&item, &otlp_metrics, rows);
}

static void test_all_tables_have_one_limit(void **state)
{
    (void)state;
    static const struct {
        size_t count, size;
        int result;
    } requests[] = {{10, 1 << 20, 0}, {20, 1 << 20, -EFBIG}, {1000, 1, 0}, {OTLP_ROWS_MAX / 2 + 1, 1, -EFBIG}};
    for (size_t i = 0; i < array_size(requests); i++) {
        _cleanup_otlp_rows_ struct otlp_rows rows = new_rows();
        assert_int_equal(decode_points(requests[i].count, requests[i].size, &rows), requests[i].result);
        assert_true(requests[i].result < 0 || rows.counts[TABLE_SUMS] == requests[i].count);
    }
}

/* An element of two bytes needs ten times as many in the engine. */
static void test_elements_of_maps_have_a_limit(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        _cleanup_otlp_rows_ struct otlp_rows rows = new_rows();
        struct buf item = {0}, event = {0}, *const message = i < 2 ? &item : &event;
        put_span(&item, NOW_NS);
        for (uint64_t left = OTLP_ELEMENTS_MAX - 1 + i % 2; left; left--) /* the resource has one */
            protobuf_put_bytes(message, i < 2 ? SPAN_ATTRIBUTES : EVENT_ATTRIBUTES, "", 0);
        if (event.size)
            protobuf_put_message(&item, SPAN_EVENTS, &event);
        assert_int_equal(decode(&item, &otlp_traces, &rows), i % 2 ? -EFBIG : 0);
        assert_int_equal(rows.elements, OTLP_ELEMENTS_MAX + i % 2);
        buf_clear(&event);
    }
}

static void test_log_record_is_a_row(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows rows = new_rows();
    struct buf item = {0}, body = {0};
    put_text(&body, ANY_VALUE_STRING, "it broke");
    protobuf_put_fixed64(&item, LOG_OBSERVED_TIME, NOW_NS);
    protobuf_put_message(&item, LOG_BODY, &body);
    protobuf_put_fixed32(&item, LOG_FLAGS, 1);
    assert_int_equal(decode(&item, &otlp_logs, &rows), 0);
    assert_int_equal(rows.counts[TABLE_LOGS], 1);
    static const char after_time[] = "\0\0\1\0\0\x04shop\x08it broke";
    assert_memory_equal(rows.tables[TABLE_LOGS].data + 8, after_time, sizeof(after_time) - 1);
    buf_clear(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_span_is_a_row),
        cmocka_unit_test(test_items_are_rejected_alone),
        cmocka_unit_test(test_invalid_messages),
        cmocka_unit_test(test_values_are_text),
        cmocka_unit_test(test_deep_values_are_refused),
        cmocka_unit_test(test_rows_have_a_limit),
        cmocka_unit_test(test_log_record_is_a_row),
        cmocka_unit_test(test_all_tables_have_one_limit),
        cmocka_unit_test(test_elements_of_maps_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
