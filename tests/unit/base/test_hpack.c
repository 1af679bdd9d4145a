/* HPACK: the examples of RFC 7541, decoders that begin in the middle of a connection, and malformed blocks. */
#include "base/hpack.h"
#include "base/hpack_huffman.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEX_BYTES_MAX 256

static size_t bytes_of(const char *hex, uint8_t out[HEX_BYTES_MAX])
{
    size_t size = 0;
    unsigned byte;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
        out[size++] = (uint8_t)byte;
    return size;
}

struct seen {
    char text[512];
    size_t fields, bytes;
};

static void see(void *context, const struct hpack_field *f)
{
    static const char *const names[HPACK_NAMES] = {"other", "method", "path", "status", "type", "grpc", "unknown"};
    struct seen *seen = context;
    const size_t at = strlen(seen->text), kept = f->value_size < HPACK_VALUE_MAX ? f->value_size : HPACK_VALUE_MAX;
    seen->fields++;
    seen->bytes += f->size;
    if (f->name != HPACK_OTHER)
        snprintf(seen->text + at, sizeof(seen->text) - at, "%s=%.*s ", names[f->name], f->has_value ? (int)kept : 1,
                 f->has_value ? f->value : "?");
}

static void expect(struct hpack_decoder *d, const char *hex, const char *fields, size_t size)
{
    uint8_t block[HEX_BYTES_MAX];
    struct seen seen = {0};
    const size_t bytes = bytes_of(hex, block);
    assert_int_equal(hpack_decode(d, block, bytes, see, &seen), 0);
    assert_string_equal(seen.text, fields);
    assert_int_equal(d->size, size);
}

static void expect_malformed(const char *hex, bool is_joined)
{
    uint8_t block[HEX_BYTES_MAX];
    struct hpack_decoder d;
    struct seen seen = {0};
    const size_t bytes = bytes_of(hex, block);
    hpack_decoder_init(&d, is_joined);
    assert_int_equal(hpack_decode(&d, block, bytes, see, &seen), -EBADMSG);
    hpack_decoder_clear(&d);
}

/* Appendix C.4: requests, with Huffman codes. */
static void test_requests_of_the_rfc_are_decoded(void **state)
{
    (void)state;
    struct hpack_decoder d;
    hpack_decoder_init(&d, false);
    expect(&d, "828684418cf1e3c2e5f23a6ba0ab90f4ff", "method=GET path=/ ", 57);
    expect(&d, "828684be5886a8eb10649cbf", "method=GET path=/ ", 110);
    expect(&d, "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", "method=GET path=/index.html ", 164);
    hpack_decoder_clear(&d);
}

/* Appendix C.6: replies with a table of 256 bytes, so that entries are evicted. */
static void test_replies_of_the_rfc_are_decoded(void **state)
{
    (void)state;
    struct hpack_decoder d;
    hpack_decoder_init(&d, false);
    d.limit = 256;
    expect(
        &d,
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
        "status=302 ", 222);
    expect(&d, "4883640effc1c0bf", "status=307 ", 222);
    expect(
        &d,
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f"
        "3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
        "status=200 ", 215);
    hpack_decoder_clear(&d);
}

static void test_entries_from_before_the_join_are_unknown_and_later_ones_exact(void **state)
{
    (void)state;
    struct hpack_decoder d;
    hpack_decoder_init(&d, true);
    /* Index 62 is not known; "/a" is inserted, and is index 62 from then on; 63 is what 62 was. */
    expect(&d, "be", "unknown=? ", 0);
    expect(&d, "44022f61", "path=/a ", 32 + 5 + 2);
    expect(&d, "bebf", "path=/a unknown=? ", 39);
    /* A value with a name that is not known. */
    expect(&d,
           "7f0002"
           "3132",
           "unknown=12 ", 39 + 32 + 2);
    expect(&d, "bf", "path=/a ", 73);
    hpack_decoder_clear(&d);
}

static void test_unknown_index_is_malformed_from_the_start(void **state)
{
    (void)state;
    expect_malformed("be", false);
}

static void test_malformed_blocks_are_refused(void **state)
{
    (void)state;
    expect_malformed("80", true);             /* index 0 */
    expect_malformed("ff", true);             /* an integer without its end */
    expect_malformed("ffffffffffffff", true); /* or a larger one than there can be */
    expect_malformed("4405", true);           /* a text longer than the block */
    expect_malformed("44857fffffffff", true); /* the end of a text within it */
    expect_malformed("4482ffff", true);       /* padding of more than 7 bits */
}

static void test_table_follows_size_updates(void **state)
{
    (void)state;
    struct hpack_decoder d;
    hpack_decoder_init(&d, false);
    expect(&d,
           "44022f61"
           "44022f62",
           "path=/a path=/b ", 78);
    expect(&d, "3f09", "", 39); /* to 40 bytes */
    expect(&d, "be", "path=/b ", 39);
    expect(&d, "20", "", 0);
    expect(&d, "44022f63", "path=/c ", 0); /* finds no place */
    hpack_decoder_clear(&d);
}

static void test_memory_of_a_table_is_bounded(void **state)
{
    (void)state;
    struct hpack_decoder d;
    struct seen seen;
    hpack_decoder_init(&d, false);
    const uint8_t largest[] = {0x3f, 0xe1, 0xff, 0xff, 0x07}, entry[] = {0x44, 0x02, '/', 'a'};
    assert_int_equal(hpack_decode(&d, largest, sizeof(largest), see, &(struct seen){0}), 0);
    for (int i = 0; i < 100000; i++) {
        seen = (struct seen){0};
        assert_int_equal(hpack_decode(&d, entry, sizeof(entry), see, &seen), 0);
    }
    assert_true(d.size <= HPACK_TABLE_MAX);
    assert_true(d.bytes <= 2 * HPACK_TABLE_MAX);
    hpack_decoder_clear(&d);
    assert_int_equal(d.bytes, 0);
}

static void test_long_values_are_cut(void **state)
{
    (void)state;
    struct hpack_decoder d;
    uint8_t block[1024] = {0x44, 0x7f, 0xe1, 0x03}; /* a path of 608 bytes */
    struct seen seen = {0};
    hpack_decoder_init(&d, false);
    memset(block + 4, 'x', 608);
    assert_int_equal(hpack_decode(&d, block, 4 + 608, see, &seen), 0);
    assert_int_equal(strlen(seen.text), strlen("path= ") + HPACK_VALUE_MAX);
    assert_int_equal(d.size, 32 + 5 + 608);
    hpack_decoder_clear(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_of_the_rfc_are_decoded),
        cmocka_unit_test(test_replies_of_the_rfc_are_decoded),
        cmocka_unit_test(test_entries_from_before_the_join_are_unknown_and_later_ones_exact),
        cmocka_unit_test(test_unknown_index_is_malformed_from_the_start),
        cmocka_unit_test(test_malformed_blocks_are_refused),
        cmocka_unit_test(test_table_follows_size_updates),
        cmocka_unit_test(test_memory_of_a_table_is_bounded),
        cmocka_unit_test(test_long_values_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
