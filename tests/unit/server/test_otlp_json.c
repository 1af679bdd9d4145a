/* Requests in JSON have the same rows as in protobuf; texts that are refused. */
#include "server/otlp_json.h"

#include "base/protobuf.h"
#include "lib/otlp/fields.h"
#include "server/otlp_rows.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int read_text(const char *text, const struct otlp_json_field *message, struct buf *out)
{
    return otlp_json_to_protobuf(text, strlen(text), message, out);
}

static void decode(const struct otlp_signal *signal, const char *text, struct otlp_rows *rows)
{
    _cleanup_buf_ struct buf message = {0};
    *rows = (struct otlp_rows){.to_ns = UINT64_MAX};
    assert_int_equal(read_text(text, signal->json, &message), 0);
    assert_int_equal(signal->decode(cursor_make(message.data, message.size), rows), 0);
}

/* Whether a row has these bytes. */
static void assert_has(const struct buf *row, const char *bytes, size_t size)
{
    assert_non_null(memmem(row->data, row->size, bytes, size));
}
#define assert_row_has(row, bytes) assert_has(row, bytes, sizeof(bytes) - 1)

static void test_span_is_a_row(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows rows;
    decode(&otlp_traces,
           "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":"
           "\"shop\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"js\",\"version\":\"1\"},\"unknown\":[{}],\"spans\":[{"
           "\"traceId\":\"5B8EFFF798038103D269B633813FC60C\",\"spanId\":\"eee19b7ec3c1b174\",\"parentSpanId\":null,"
           "\"name\":\"GET /\",\"kind\":2,\"startTimeUnixNano\":\"5\",\"endTimeUnixNano\":8,\"status\":{\"code\":2},"
           "\"attributes\":[{\"key\":\"n\",\"value\":{\"intValue\":\"-7\"}},{\"key\":\"d\",\"value\":{\"doubleValue\":"
           "1}},{\"key\":\"b\",\"value\":{\"boolValue\":false}},{\"key\":\"y\",\"value\":{\"bytesValue\":\"-_8A\"}},"
           "{\"key\":\"l\",\"value\":{\"arrayValue\":{\"values\":[{\"stringValue\":\"x\"},{\"kvlistValue\":{\"values\":"
           "[{\"key\":\"k\",\"value\":{\"intValue\":3}}]}}]}}}],\"events\":[{\"timeUnixNano\":\"6\",\"name\":\"e\"}]"
           "}]}]}]}",
           &rows);
    const struct buf *row = &rows.tables[TABLE_TRACES];
    assert_int_equal(rows.counts[TABLE_TRACES], 1);
    assert_row_has(row, "\x05\0\0\0\0\0\0\0\x20"
                        "5b8efff798038103d269b633813fc60c\x10"
                        "eee19b7ec3c1b174\0\0\x05GET /"
                        "\x06Server\x04shop\x01\x0cservice.name\x04shop\x02js\x01"
                        "1");
    assert_row_has(row, "\x05\x01n\x02-7\x01"
                        "d\x01"
                        "1\x01"
                        "b\x05"
                        "false\x01y\x04+/8A\x01l\x0d[\"x\",{\"k\":3}]");
    assert_row_has(row, "\x03\0\0\0\0\0\0\0\x05"
                        "Error\0\x01\x06\0\0\0\0\0\0\0\x01\x01"
                        "e\x01\0");
}

static void test_log_record_and_points_are_rows(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows logs, metrics;
    decode(&otlp_logs,
           "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"timeUnixNano\":\"5\",\"severityNumber\":9,\"flags\":"
           "1,\"body\":{\"stringValue\":\"a\\u0000b\"},\"eventName\":\"e\"}]}]}]}",
           &logs);
    assert_int_equal(logs.counts[TABLE_LOGS], 1);
    assert_row_has(&logs.tables[TABLE_LOGS], "\0\0\x01\0\x09\0\x03"
                                             "a\0b");
    decode(&otlp_metrics,
           "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"metrics\":[{\"name\":\"g\",\"gauge\":{\"dataPoints\":[{"
           "\"timeUnixNano\":\"5\",\"asInt\":\"-3\"},{\"timeUnixNano\":\"5\",\"asDouble\":\"-Infinity\"}]}},{\"name\":"
           "\"h\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":[{\"timeUnixNano\":\"5\",\"count\":3,"
           "\"sum\":2.5,\"bucketCounts\":[\"1\",2],\"explicitBounds\":[0.5]}]}},{\"name\":\"e\","
           "\"exponentialHistogram\":{\"dataPoints\":[{\"timeUnixNano\":\"5\",\"scale\":-2,\"positive\":{\"offset\":-1,"
           "\"bucketCounts\":[\"4\"]}}]}},{\"name\":\"s\",\"summary\":{\"dataPoints\":[{\"timeUnixNano\":\"5\","
           "\"quantileValues\":[{\"quantile\":0.5,\"value\":1}]}]}}]}]}]}",
           &metrics);
    assert_int_equal(metrics.counts[TABLE_GAUGES], 2);
    assert_row_has(&metrics.tables[TABLE_GAUGES], "\0\0\0\0\0\0\x08\xc0");
    assert_row_has(&metrics.tables[TABLE_GAUGES], "\0\0\0\0\0\0\xf0\xff");
    assert_row_has(&metrics.tables[TABLE_HISTOGRAMS],
                   "\x02\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\xe0\x3f");
    assert_row_has(&metrics.tables[TABLE_EXPONENTIALS], "\xfe\xff\xff\xff");
    assert_row_has(&metrics.tables[TABLE_EXPONENTIALS], "\xff\xff\xff\xff\x01\x04\0\0\0\0\0\0\0");
    assert_int_equal(metrics.counts[TABLE_SUMMARIES], 1);
}

static void test_texts_that_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{",
        "{}x",
        "{\"resourceSpans\":{}}",
        "{\"resourceSpans\":[1]}",
        "{\"resourceSpans\":[null]}",
        "{\"resourceSpans\":[],\"resourceSpans\":[]}",
        "{\"a\":\"\xff\"}",
    };
    static const char *const spans[] = {
        "\"traceId\":\"abc\"",
        "\"traceId\":\"zz\"",
        "\"traceId\":7",
        "\"name\":7",
        "\"kind\":\"SERVER\"",
        "\"kind\":1.5",
        "\"kind\":true",
        "\"kind\":\"\"",
        "\"kind\":\"1 \"",
        "\"startTimeUnixNano\":\"18446744073709551616\"",
        "\"startTimeUnixNano\":1e30",
        "\"attributes\":[{\"key\":\"k\",\"value\":{\"doubleValue\":\"0x1\"}}]",
        "\"attributes\":[{\"key\":\"k\",\"value\":{\"boolValue\":1}}]",
        "\"attributes\":[{\"key\":\"k\",\"value\":{\"bytesValue\":\"a*\"}}]",
    };
    for (size_t i = 0; i < array_size(texts) + array_size(spans); i++) {
        _cleanup_buf_ struct buf text = {0}, out = {0};
        if (i < array_size(texts))
            buf_puts(&text, texts[i]);
        else
            buf_printf(&text, "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{%s}]}]}]}",
                       spans[i - array_size(texts)]);
        assert_int_equal(otlp_json_to_protobuf(text.data ? text.data : "", text.size, otlp_json_traces, &out),
                         -EBADMSG);
    }
}

static void test_hostile_texts_have_limits(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf deep = {0}, many = {0}, out = {0}, after = {0};
    buf_puts(&deep, "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"body\":");
    for (int i = 0; i < 200; i++)
        buf_puts(&deep, "{\"arrayValue\":{\"values\":[");
    for (int i = 0; i < 200; i++)
        buf_puts(&deep, "]}}");
    buf_puts(&deep, "}]}]}]}");
    assert_int_equal(otlp_json_to_protobuf(deep.data, deep.size, otlp_json_logs, &out), -ELOOP);
    buf_puts(&many, "[[]");
    for (int i = 0; i < 5000000; i++)
        buf_puts(&many, ",[]");
    assert_int_equal(otlp_json_to_protobuf(many.data, many.size, otlp_json_logs, &out), -EFBIG);
    assert_int_equal(read_text("{}", otlp_json_logs, &after), 0);
}

static int set_up(void **state)
{
    (void)state;
    otlp_json_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_span_is_a_row),
        cmocka_unit_test(test_log_record_and_points_are_rows),
        cmocka_unit_test(test_texts_that_are_refused),
        cmocka_unit_test(test_hostile_texts_have_limits),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
