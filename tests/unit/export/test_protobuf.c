/* protobuf's wire format: known bytes. */
#include "export/protobuf.h"

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
    protobuf_put_number(&message, 1, 150);
    protobuf_put_message(&b, 3, &message);
    assert_int_equal(message.size, 0);
    protobuf_put_message(&b, 3, &message);
    expect_bytes(&b, "\x1a\x03\x08\x96\x01\x1a\x00", 7);
    buf_clear(&message);
}

static void test_zero_fields_are_omitted(void **state)
{
    (void)state;
    struct buf b = {0};
    protobuf_put_number(&b, 1, 0);
    assert_int_equal(b.size, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varints),
        cmocka_unit_test(test_field_encodings),
        cmocka_unit_test(test_zero_fields_are_omitted),
        cmocka_unit_test(test_nested_message_errors_propagate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
