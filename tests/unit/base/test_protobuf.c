/* protobuf's wire format: known bytes, written and read; malformed messages. */
#include "base/protobuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void expect_bytes(struct buf *b, const char *bytes, size_t size)
{
    assert_int_equal(b->error, 0);
    assert_int_equal(b->size, size);
    assert_memory_equal(b->data, bytes, size);
    buf_clear(b);
}

static void test_varints(void **state)
{
    (void)state;
    struct buf b = {0};
    protobuf_varint(&b, 0);
    expect_bytes(&b, "\x00", 1);
    protobuf_varint(&b, 127);
    expect_bytes(&b, "\x7f", 1);
    protobuf_varint(&b, 128);
    expect_bytes(&b, "\x80\x01", 2);
    protobuf_varint(&b, 300);
    expect_bytes(&b, "\xac\x02", 2);
    protobuf_varint(&b, UINT64_MAX);
    expect_bytes(&b, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
}

static void test_field_encodings(void **state)
{
    (void)state;
    struct buf b = {0}, message = {0};
    protobuf_put_number(&b, 1, 150);
    expect_bytes(&b, "\x08\x96\x01", 3);
    protobuf_put_number(&b, 16, 1); /* a tag of two bytes */
    expect_bytes(&b, "\x80\x01\x01", 3);
    protobuf_put_bytes(&b, 2, "testing", 7);
    expect_bytes(&b, "\x12\x07testing", 9);
    protobuf_put_fixed64(&b, 1, 0x0102030405060708);
    expect_bytes(&b, "\x09\x08\x07\x06\x05\x04\x03\x02\x01", 9);
    protobuf_put_number(&message, 1, 150);
    protobuf_put_message(&b, 3, &message);
    assert_int_equal(message.size, 0);
    protobuf_put_message(&b, 3, &message);
    expect_bytes(&b, "\x1a\x03\x08\x96\x01\x1a\x00", 7);
    buf_clear(&message);
}

static void test_zero_fields_are_omitted_except_in_a_oneof(void **state)
{
    (void)state;
    struct buf b = {0};
    protobuf_put_number(&b, 1, 0);
    assert_int_equal(b.size, 0);
    protobuf_put_oneof_number(&b, 1, 0);
    expect_bytes(&b, "\x08\x00", 2);
}

static void test_nested_message_errors_propagate(void **state)
{
    (void)state;
    struct buf b = {0}, message = {.max_bytes = 2};
    protobuf_put_bytes(&message, 1, "too long", 8);
    protobuf_put_message(&b, 1, &message);
    assert_true(buf_error(&b) < 0);
    buf_clear(&b);
    buf_clear(&message);
}

static void test_fields_are_read_in_order(void **state)
{
    (void)state;
    static const char message[] = "\x08\x96\x01\x09\x08\x07\x06\x05\x04\x03\x02\x01\x15skip\x12\x07testing";
    struct cursor c = cursor_make(message, sizeof(message) - 1);
    struct protobuf_field f;
    assert_true(protobuf_next_field(&c, &f));
    assert_int_equal(f.number, 1);
    assert_int_equal(f.value, 150);
    assert_true(protobuf_next_field(&c, &f));
    assert_int_equal(f.value, 0x0102030405060708);
    assert_true(protobuf_next_field(&c, &f)); /* a fixed32, whose value is not kept */
    assert_int_equal(f.number, 2);
    assert_true(protobuf_next_field(&c, &f));
    assert_int_equal(f.inside.size, 7);
    assert_memory_equal(f.inside.data, "testing", 7);
    assert_false(protobuf_next_field(&c, &f));
    assert_false(c.failed);
}

static void test_malformed_fields_fail_the_cursor(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } malformed[] = {
        {"\x08", 1},         /* no value */
        {"\x08\x80", 2},     /* a varint that does not end */
        {"\x09\x01\x02", 3}, /* a fixed64 of two bytes */
        {"\x12\x02t", 3},    /* longer than the message */
        {"\x0b\x0c", 2},     /* a group, which proto3 does not have */
    };
    for (size_t i = 0; i < array_size(malformed); i++) {
        struct cursor c = cursor_make(malformed[i].bytes, malformed[i].size);
        struct protobuf_field f;
        assert_false(protobuf_next_field(&c, &f));
        assert_true(c.failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varints),
        cmocka_unit_test(test_field_encodings),
        cmocka_unit_test(test_zero_fields_are_omitted_except_in_a_oneof),
        cmocka_unit_test(test_nested_message_errors_propagate),
        cmocka_unit_test(test_fields_are_read_in_order),
        cmocka_unit_test(test_malformed_fields_fail_the_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
