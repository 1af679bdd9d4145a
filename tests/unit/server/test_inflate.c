/* Bodies: plain, compressed, damaged, and larger than they look. */
#include "server/inflate.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

#define MAX_BYTES 100000

static char text[MAX_BYTES + 1];

static void make_packed(struct buf *out, const char *encoding, size_t size)
{
    memset(text, 'a', sizeof(text));
    if (strcmp(encoding, "gzip") == 0) {
        assert_int_equal(buf_gzip(out, text, size), 0);
        return;
    }
    char packed[1000];
    const size_t n = ZSTD_compress(packed, sizeof(packed), text, size, 3);
    assert_false(ZSTD_isError(n));
    buf_append(out, packed, n);
}

static int inflated(const char *encoding, const void *data, size_t size, size_t expected)
{
    _cleanup_buf_ struct buf out = {0};
    const int r = inflate_body(&out, encoding, data, size, MAX_BYTES);
    if (r == 0)
        assert_int_equal(out.size, expected);
    return r;
}

static void check_encoding(const char *encoding)
{
    _cleanup_buf_ struct buf packed = {0}, bomb = {0};
    make_packed(&packed, encoding, MAX_BYTES);
    assert_int_equal(inflated(encoding, packed.data, packed.size, MAX_BYTES), 0);
    for (size_t cut = 1; cut < packed.size; cut++)
        assert_int_equal(inflated(encoding, packed.data, packed.size - cut, 0), -EBADMSG);
    buf_putc(&packed, 'x');
    assert_int_equal(inflated(encoding, packed.data, packed.size, 0), -EBADMSG);
    make_packed(&bomb, encoding, MAX_BYTES + 1);
    assert_int_equal(inflated(encoding, bomb.data, bomb.size, 0), -EFBIG);
    assert_int_equal(inflated(encoding, text, 100, 0), -EBADMSG);
}

static void test_compressed_bodies(void **state)
{
    (void)state;
    check_encoding("gzip");
    check_encoding("zstd");
}

static void test_other_encodings(void **state)
{
    (void)state;
    assert_int_equal(inflated(NULL, "abc", 3, 3), 0);
    assert_int_equal(inflated("Identity", "abc", 3, 3), 0);
    assert_int_equal(inflated(NULL, NULL, 0, 0), 0);
    assert_int_equal(inflated("br", "abc", 3, 0), -EOPNOTSUPP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_compressed_bodies),
                                       cmocka_unit_test(test_other_encodings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
