/* buf.c and utf8.c: contents, bounds, sticky errors, and JSON and UTF-8 that stay valid for any input. */
#include "base/buf.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#include <cmocka.h>

static void test_append(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf b = {0};
    assert_int_equal(buf_append(&b, NULL, 0), 0);
    assert_int_equal(buf_puts(&b, "ab"), 0);
    assert_int_equal(buf_putc(&b, 'c'), 0);
    assert_int_equal(buf_append(&b, "d\0e", 3), 0);
    assert_int_equal(buf_printf(&b, "%d%s", 7, ""), 0);
    assert_int_equal(b.size, 7);
    assert_memory_equal(b.data, "abcd\0e7", 8); /* with the NUL after it */
    buf_clear(&b);
    assert_int_equal(b.size, 0);
    assert_null(b.data);
    for (int i = 0; i < 100000; i++)
        buf_printf(&b, "%05d", i);
    assert_int_equal(b.size, 500000);
    assert_memory_equal(b.data + 499995, "99999", 6);
}

static void test_bound_is_kept_and_errors_stick(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf b = {.max_bytes = 10};
    assert_int_equal(buf_puts(&b, "0123456789"), 0); /* exactly */
    assert_int_equal(buf_putc(&b, 'x'), -EFBIG);
    assert_int_equal(buf_error(&b), -EFBIG);
    assert_int_equal(buf_append(&b, "", 0), -EFBIG);
    assert_int_equal(buf_printf(&b, "%s", ""), -EFBIG);
    assert_int_equal(buf_put_json_string(&b, "a"), -EFBIG);
    assert_int_equal(buf_put_utf8(&b, "a"), -EFBIG);
    assert_int_equal(buf_gzip(&b, "a", 1), -EFBIG);
    assert_int_equal(buf_zlib(&b, "a", 1), -EFBIG);
    assert_string_equal(b.data, "0123456789");
    buf_clear(&b);
    assert_int_equal(buf_append(&b, "", SIZE_MAX), -EFBIG); /* no sum wraps */
    _cleanup_buf_ struct buf vast = {.max_bytes = SIZE_MAX};
    assert_int_equal(buf_append(&vast, "", SIZE_MAX - 1), -EFBIG);
}

static void expect_json(const char *text, const char *expected)
{
    _cleanup_buf_ struct buf b = {0};
    assert_int_equal(buf_put_json_string(&b, text), 0);
    assert_string_equal(b.data, expected);
}

static void test_json_strings(void **state)
{
    (void)state;
    expect_json("", "\"\"");
    expect_json("plain text", "\"plain text\"");
    expect_json("\"\\", "\"\\\"\\\\\"");
    expect_json("\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\"");
    expect_json("</script>&", "\"\\u003c/script\\u003e\\u0026\"");
    expect_json("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    expect_json("a\xff"
                "b",
                "\"a\\ufffdb\"");
    expect_json("\xe2\x82", "\"\\ufffd\\ufffd\"");            /* cut short */
    expect_json("\xc0\xaf", "\"\\ufffd\\ufffd\"");            /* overlong */
    expect_json("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* a surrogate */
}

static void test_utf8_lengths(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t length;
    } cases[] = {
        {"", 1},
        {"a", 1},
        {"\x7f", 1},
        {"\x80", 0},
        {"\xbf", 0},
        {"\xc0\x80", 0},
        {"\xc1\xbf", 0},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xc2", 0},
        {"\xc2\x41", 0},
        {"\xe0\x80\x80", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xed\xa0\x80", 0},
        {"\xee\x80\x80", 3},
        {"\xef\xbf\xbf", 3},
        {"\xe1\x80", 0},
        {"\xf0\x80\x80\x80", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\xf4\x90\x80\x80", 0},
        {"\xf5\x80\x80\x80", 0},
        {"\xf1\x80\x80", 0},
        {"\xff", 0},
    };
    for (size_t i = 0; i < array_size(cases); i++)
        if (utf8_length(cases[i].text) != cases[i].length)
            fail_msg("case %zu", i);
}

static void test_invalid_utf8_is_replaced(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf b = {0};
    buf_put_utf8(&b, "a\xff\xc3\xa9\xe2\x82"
                     "b\x80");
    assert_string_equal(b.data, "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd"
                                "b\xef\xbf\xbd");
    _cleanup_buf_ struct buf empty = {0};
    assert_int_equal(buf_put_utf8(&empty, ""), 0);
    assert_int_equal(empty.size, 0);
}

/* Any input bytes yield valid UTF-8. */
static void test_random_bytes_become_utf8(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        char text[12] = {0};
        for (size_t j = 0; j < sizeof(text) - 1; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[j] = seed & 1 << 20 ? seed >> 33 : (seed >> 33) | 0x80;
        }
        _cleanup_buf_ struct buf plain = {0}, json = {0};
        buf_put_utf8(&plain, text);
        buf_put_json_string(&json, text);
        for (const char *s = plain.data; s && *s; s += utf8_length(s))
            assert_true(utf8_length(s) > 0);
        for (const char *s = json.data; *s; s += utf8_length(s))
            assert_true(utf8_length(s) > 0);
    }
}

static void test_write_to_file(void **state)
{
    (void)state;
    _cleanup_close_ int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    char page[10000];
    memset(page, 'x', sizeof(page));
    assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
    _cleanup_buf_ struct buf whole = {0}, exact = {0}, small = {0}, bounded = {.max_bytes = 100};
    lseek(fd, 0, SEEK_SET);
    buf_puts(&whole, "before ");
    assert_int_equal(buf_read_fd(&whole, fd, 1 << 20), 0);
    assert_int_equal(whole.size, 7 + sizeof(page));
    assert_memory_equal(whole.data, "before xxx", 10);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(buf_read_fd(&exact, fd, sizeof(page)), 0);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(buf_read_fd(&small, fd, sizeof(page) - 1), -EFBIG);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(buf_read_fd(&bounded, fd, 1 << 20), -EFBIG);
    assert_int_equal(buf_read_fd(&small, -1, 10), -EBADF);
    assert_int_equal(buf_read_file(&small, "/does/not/exist", 10), -ENOENT);
    _cleanup_buf_ struct buf proc = {0};
    assert_int_equal(buf_read_file(&proc, "/proc/self/maps", 1 << 20), 0);
    assert_true(proc.size > 0);
    _cleanup_buf_ struct buf endless = {0};
    assert_int_equal(buf_read_file(&endless, "/dev/zero", 100000), -EFBIG);
}

typedef int compress_function(struct buf *out, const void *in, size_t size);

/* `window_bits` selects the one format that zlib accepts. */
static void expect_round_trip(compress_function *compress, int window_bits)
{
    for (size_t size = 0; size < 300000; size = size * 3 + 1) {
        _cleanup_buf_ struct buf in = {0}, out = {0};
        for (size_t i = 0; i < size; i++)
            buf_putc(&in, i * i >> 3);
        buf_puts(&out, "before");
        assert_int_equal(compress(&out, in.data, in.size), 0);
        unsigned char *back = malloc(size + 1);
        z_stream z = {.next_in = (unsigned char *)out.data + 6,
                      .avail_in = out.size - 6,
                      .next_out = back,
                      .avail_out = size + 1};
        assert_int_equal(inflateInit2(&z, window_bits), Z_OK);
        assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
        assert_int_equal(z.total_out, size);
        if (size)
            assert_memory_equal(back, in.data, size);
        inflateEnd(&z);
        free(back);
    }
}

static void test_gzip_round_trip(void **state)
{
    (void)state;
    expect_round_trip(buf_gzip, MAX_WBITS + 16);
}

static void test_zlib_round_trip(void **state)
{
    (void)state;
    expect_round_trip(buf_zlib, MAX_WBITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_bound_is_kept_and_errors_stick),
        cmocka_unit_test(test_json_strings),
        cmocka_unit_test(test_utf8_lengths),
        cmocka_unit_test(test_invalid_utf8_is_replaced),
        cmocka_unit_test(test_random_bytes_become_utf8),
        cmocka_unit_test(test_write_to_file),
        cmocka_unit_test(test_gzip_round_trip),
        cmocka_unit_test(test_zlib_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
