/* Profiles as rows: stacks and frames once for each day, indices that do not exist, hostile requests.
 * tests/e2e/test_server_profiles.py compares what an agent sends with the answers of SQL. */
#include "server/otlp_rows.h"

#include "base/protobuf.h"
#include "server/known_rows.h"
#include "server/profile_dictionary.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DAY_NS 86400000000000ull
#define NOW_NS (20000 * DAY_NS)

static void put_packed(struct buf *b, uint32_t field, uint64_t first, uint64_t second)
{
    struct buf numbers = {0};
    protobuf_varint(&numbers, first);
    protobuf_varint(&numbers, second);
    protobuf_put_message(b, field, &numbers);
    buf_clear(&numbers);
}

/* Functions "a" and "b", a location of each, and one stack: a called b. */
static void put_dictionary(struct buf *d)
{
    struct buf row = {0}, line = {0};
    for (const char *const *s = (const char *const[]){"", "a", "b", NULL}; *s; s++)
        protobuf_put_bytes(d, OTLP_STRING, *s, strlen(*s));
    for (uint64_t i = 0; i < 3; i++) {
        protobuf_put_number(&row, FUNCTION_NAME, i);
        protobuf_put_message(d, OTLP_FUNCTION, &row);
        protobuf_put_number(&line, LINE_FUNCTION, i);
        protobuf_put_message(&row, LOCATION_LINES, &line);
        protobuf_put_message(d, OTLP_LOCATION, &row);
    }
    protobuf_put_message(d, OTLP_STACK, &row);
    put_packed(&row, STACK_LOCATIONS, 2, 1);
    protobuf_put_message(d, OTLP_STACK, &row);
    buf_clear(&row);
    buf_clear(&line);
}

static void put_sample(struct buf *samples, uint64_t stack, uint64_t value, uint64_t time_ns)
{
    struct buf sample = {0}, numbers = {0};
    protobuf_put_number(&sample, SAMPLE_STACK, stack);
    protobuf_varint(&numbers, value);
    protobuf_put_message(&sample, SAMPLE_VALUES, &numbers);
    if (time_ns) {
        protobuf_fixed64(&numbers, time_ns);
        protobuf_put_message(&sample, SAMPLE_TIMESTAMPS, &numbers);
    }
    protobuf_put_message(samples, PROFILE_SAMPLES, &sample);
    buf_clear(&sample);
    buf_clear(&numbers);
}

static int decode(struct buf *samples, struct buf *dictionary, struct otlp_rows *rows)
{
    struct buf resource = {0}, scope = {0};
    _cleanup_buf_ struct buf request = {0};
    rows->from_ns = NOW_NS - 30 * DAY_NS;
    rows->to_ns = NOW_NS + DAY_NS;
    protobuf_put_fixed64(samples, PROFILE_TIME_UNIX_NANO, NOW_NS);
    protobuf_put_message(&scope, SCOPE_PROFILES_PROFILES, samples);
    protobuf_put_message(&resource, RESOURCE_PROFILES_SCOPE_PROFILES, &scope);
    protobuf_put_message(&request, REQUEST_RESOURCE_PROFILES, &resource);
    protobuf_put_message(&request, REQUEST_DICTIONARY, dictionary);
    const int r = otlp_profiles.decode(cursor_make(request.data, request.size), rows);
    buf_clear(&resource);
    buf_clear(&scope);
    buf_clear(samples);
    buf_clear(dictionary);
    return r;
}

static void assert_counts(const struct otlp_rows *rows, uint32_t samples, uint32_t stacks, uint32_t frames)
{
    assert_int_equal(rows->counts[TABLE_PROFILE_SAMPLES], samples);
    assert_int_equal(rows->counts[TABLE_PROFILE_STACKS], stacks);
    assert_int_equal(rows->counts[TABLE_PROFILE_FRAMES], frames);
}

static void test_a_stack_has_a_row_for_each_day(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows rows = {0};
    struct buf samples = {0}, dictionary = {0};
    put_dictionary(&dictionary);
    for (int i = 0; i < 3; i++)
        put_sample(&samples, 1, 7, NOW_NS + (uint64_t)i);
    put_sample(&samples, 1, 7, NOW_NS - 1);
    put_sample(&samples, 1, 7, NOW_NS - 2);
    put_sample(&samples, 1, 7, NOW_NS - 20 * DAY_NS);
    put_sample(&samples, 1, 7, NOW_NS - 10 * DAY_NS);
    put_sample(&samples, 1, 7, 0);
    put_sample(&samples, 1, 7, NOW_NS - 40 * DAY_NS);
    assert_int_equal(decode(&samples, &dictionary, &rows), 0);
    assert_counts(&rows, 8, 4, 8);
    assert_int_equal(rows.counts[TABLE_PROFILE_RESOURCES], 4);
    assert_int_equal(rows.rejected, 1);
    const char *row = rows.tables[TABLE_PROFILE_STACKS].data;
    assert_memory_equal(row, "\x20\x4e", 2); /* day 20000 */
    assert_memory_equal(row + 10,
                        "\x02\x01"
                        "a\x01"
                        "b\x02",
                        6); /* the outermost first */
}

/* Of the packets of an agent, which repeat their stacks. */
static void test_known_rows_are_left_out(void **state)
{
    (void)state;
    static const struct {
        uint64_t time_ns;
        bool is_stored;
        uint32_t stacks, frames;
    } packets[] = {{NOW_NS, false, 1, 2}, {NOW_NS, true, 1, 2}, {NOW_NS, true, 0, 0}, {NOW_NS - DAY_NS, true, 1, 2}};
    _cleanup_(known_rows_freep) struct known_rows *known = NULL;
    assert_int_equal(known_rows_new(100, &known), 0);
    for (size_t i = 0; i < array_size(packets); i++) {
        _cleanup_otlp_rows_ struct otlp_rows rows = {.known = known};
        struct buf samples = {0}, dictionary = {0};
        put_dictionary(&dictionary);
        put_sample(&samples, 1, 7, packets[i].time_ns);
        assert_int_equal(decode(&samples, &dictionary, &rows), 0);
        assert_counts(&rows, 1, packets[i].stacks, packets[i].frames);
        assert_int_equal(rows.counts[TABLE_PROFILE_RESOURCES], packets[i].stacks);
        if (packets[i].is_stored)
            known_rows_add(known, (const uint64_t *)(const void *)rows.stored.data,
                           rows.stored.size / sizeof(uint64_t));
    }
}

static void test_indices_that_do_not_exist_are_0(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows rows = {0};
    struct buf samples = {0}, dictionary = {0};
    protobuf_put_bytes(&samples, PROFILE_SAMPLES, "\x08\x4d\x12\x01\x05\x18\x05\x22\x01\x07",
                       10); /* stack 77 and so on */
    assert_int_equal(decode(&samples, &dictionary, &rows), 0);
    assert_counts(&rows, 1, 1, 0);
    const struct buf *row = &rows.tables[TABLE_PROFILE_SAMPLES];
    assert_memory_equal(row->data + row->size - 4, "\0\0\0\0", 4); /* no thread, trace, span, attributes */
}

static void test_frame_without_function_has_file_and_address(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows rows = {0};
    struct buf samples = {0}, dictionary = {0}, row = {0};
    protobuf_put_bytes(&dictionary, OTLP_STRING, "", 0);
    protobuf_put_bytes(&dictionary, OTLP_STRING, "/lib/x.so", 9);
    protobuf_put_message(&dictionary, OTLP_MAPPING, &row);
    protobuf_put_number(&row, MAPPING_FILENAME, 1);
    protobuf_put_message(&dictionary, OTLP_MAPPING, &row);
    protobuf_put_number(&row, LOCATION_MAPPING, 1);
    protobuf_put_number(&row, LOCATION_ADDRESS, 0x1f);
    protobuf_put_message(&dictionary, OTLP_LOCATION, &row);
    put_packed(&row, STACK_LOCATIONS, 0, 0);
    protobuf_put_message(&dictionary, OTLP_STACK, &row);
    put_sample(&samples, 0, 1, NOW_NS);
    assert_int_equal(decode(&samples, &dictionary, &rows), 0);
    assert_counts(&rows, 1, 1, 1);
    assert_memory_equal(rows.tables[TABLE_PROFILE_STACKS].data + 10, "\x02\x09x.so+0x1f\x09x.so+0x1f", 21);
    buf_clear(&row);
}

static void test_hostile_requests_have_limits(void **state)
{
    (void)state;
    struct buf samples = {0}, dictionary = {0}, row = {0}, indices = {0};
    for (int i = 0; i <= PROFILE_ROWS_MAX; i++)
        protobuf_put_bytes(&dictionary, OTLP_STRING, "", 0);
    _cleanup_otlp_rows_ struct otlp_rows rows = {0};
    assert_int_equal(decode(&samples, &dictionary, &rows), -EFBIG);
    put_dictionary(&dictionary);
    for (int i = 0; i <= PROFILE_DEPTH_MAX; i++)
        protobuf_varint(&indices, 1);
    protobuf_put_message(&row, STACK_LOCATIONS, &indices);
    protobuf_put_message(&dictionary, OTLP_STACK, &row);
    put_sample(&samples, 2, 1, NOW_NS);
    _cleanup_otlp_rows_ struct otlp_rows deep = {0};
    assert_int_equal(decode(&samples, &dictionary, &deep), -EFBIG);
    /* A long row of a location is decoded once, although many stacks refer to it. */
    for (int i = 0; i < 1000000; i++)
        protobuf_varint(&indices, 9);
    protobuf_put_message(&row, LOCATION_ATTRIBUTES, &indices);
    protobuf_put_message(&dictionary, OTLP_LOCATION, &row);
    for (int i = 0; i < 2000; i++)
        protobuf_varint(&indices, 0);
    protobuf_put_message(&row, STACK_LOCATIONS, &indices);
    for (int i = 0; i < 500; i++) {
        protobuf_put_bytes(&dictionary, OTLP_STACK, row.data, row.size);
        put_sample(&samples, (uint64_t)i, 1, NOW_NS);
    }
    _cleanup_otlp_rows_ struct otlp_rows wide = {0};
    assert_int_equal(decode(&samples, &dictionary, &wide), 0);
    assert_counts(&wide, 500, 500, 1);
    buf_clear(&row);
    buf_clear(&indices);
}

static void test_invalid_messages(void **state)
{
    (void)state;
    _cleanup_otlp_rows_ struct otlp_rows rows = {0}, other = {0};
    struct buf samples = {0}, dictionary = {0};
    protobuf_put_bytes(&dictionary, OTLP_LOCATION, "\x0a\x00", 2); /* mapping_index as bytes */
    assert_int_equal(decode(&samples, &dictionary, &rows), -EBADMSG);
    protobuf_put_bytes(&samples, PROFILE_SAMPLES, "\x0d\x00\x00\x00\x00", 5); /* stack_index as fixed32 */
    assert_int_equal(decode(&samples, &dictionary, &other), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stack_has_a_row_for_each_day),
        cmocka_unit_test(test_known_rows_are_left_out),
        cmocka_unit_test(test_indices_that_do_not_exist_are_0),
        cmocka_unit_test(test_frame_without_function_has_file_and_address),
        cmocka_unit_test(test_hostile_requests_have_limits),
        cmocka_unit_test(test_invalid_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
