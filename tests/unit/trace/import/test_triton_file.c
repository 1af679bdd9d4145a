/* The reader of trace files: records as written, across the ends of buffers, and the reported offset of invalid ones.
 */
#include "trace/import/triton_file.h"

#include "base/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct triton_file *open_text(const char *text, size_t size, char path[64])
{
    struct triton_file *f;
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, text, size) == (ssize_t)size);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    assert_int_equal(triton_file_open(path, &f), 0);
    close(fd);
    return f;
}

static void assert_text(struct triton_text text, const char *expected)
{
    assert_int_equal(text.size, strlen(expected));
    assert_memory_equal(text.at, expected, text.size);
}

#define OPEN(text)                                                                                                     \
    char path_[64];                                                                                                    \
    _cleanup_(triton_file_freep) struct triton_file *f = open_text(text, sizeof(text) - 1, path_);                     \
    struct triton_record r;                                                                                            \
    const struct triton_report *report = triton_file_report(f)

static void test_every_member_is_read(void **state)
{
    (void)state;
    OPEN(
        "[{\"id\":7,\"model_name\":\"m\\u00e9\\ud83d\\ude00\\n\",\"model_version\":-3,\"request_id\":\"r\",\"parent_id\":18446744073709551615},\n"
        " {\"id\":7,\"timestamps\":[{\"name\":\"A\",\"ns\":1},{\"ns\":2,\"name\":\"B\",\"more\":[{}]}]},"
        "{\"id\":8,\"activity\":\"T\",\"tensor\":{\"name\":\"x\",\"data\":\"1,2\",\"shape\":\"2\",\"dtype\":\"INT8\",\"y\":null}}]\n");
    assert_int_equal(triton_file_next(f, &r), 1);
    assert_int_equal(r.offset, 1);
    assert_int_equal(r.id, 7);
    assert_text(r.model_name, "m\xC3\xA9\xF0\x9F\x98\x80\n");
    assert_true(r.has_version && r.has_parent);
    assert_int_equal(r.model_version, -3);
    assert_text(r.request_id, "r");
    assert_int_equal(r.parent_id, UINT64_MAX);
    assert_int_equal(triton_file_next(f, &r), 1);
    assert_false(r.has_parent || r.has_version || r.model_name.at);
    assert_int_equal(r.stamp_count, 2);
    assert_text(r.stamps[1].name, "B");
    assert_int_equal(r.stamps[1].ns, 2);
    assert_int_equal(triton_file_next(f, &r), 1);
    assert_text(r.activity, "T");
    assert_text(r.tensor.name, "x");
    assert_text(r.tensor.data, "1,2");
    assert_text(r.tensor.shape, "2");
    assert_text(r.tensor.dtype, "INT8");
    assert_int_equal(triton_file_next(f, &r), 0);
    assert_int_equal(report->records, 3);
    assert_false(report->is_cut || report->bad || report->odd || report->error);
}

/* The usual form (fast path) and the same with a space (general parser) give the same record. */
static void test_fast_and_general_parser_agree(void **state)
{
    static const char *const numbers[] = {
        "0", "7", "12345678", "123456789012345", "1234567890123456", "9999999999999999999", "18446744073709551615"};
    (void)state;
    for (size_t i = 0; i < array_size(numbers); i++)
        for (int way = 0; way < 2; way++) {
            char text[200], path[64];
            int size =
                snprintf(text, sizeof(text), "[{\"id\":%s%s,\"timestamps\":[{\"name\":\"COMPUTE_START\",\"ns\":%s}]}]",
                         numbers[i], way ? " " : "", numbers[i]);
            _cleanup_(triton_file_freep) struct triton_file *f = open_text(text, (size_t)size, path);
            struct triton_record r;
            assert_int_equal(triton_file_next(f, &r), 1);
            assert_int_equal(r.id, strtoull(numbers[i], NULL, 10));
            assert_int_equal(r.stamps[0].ns, r.id);
            assert_text(r.stamps[0].name, "COMPUTE_START");
            assert_int_equal(triton_event_find(r.stamps[0].name), TRITON_COMPUTE_START);
            assert_int_equal(triton_file_next(f, &r), 0);
        }
}

/* Objects of every size around the ends of buffers: none is lost, and each is at its reported offset. */
static void test_records_across_buffer_ends(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf text = {0};
    uint64_t offsets[3000];
    buf_putc(&text, '[');
    for (unsigned i = 0; i < array_size(offsets); i++) {
        if (i)
            buf_puts(&text, i % 7 ? "," : " ,\n\t");
        offsets[i] = text.size;
        buf_printf(&text, "{\"id\":%u,\"x\":\"%*s\",\"timestamps\":[{\"name\":\"A\",\"ns\":%u}]}", i,
                   (int)(i * i % 2900), "", i * 3);
    }
    buf_putc(&text, ']');
    char path[64];
    _cleanup_(triton_file_freep) struct triton_file *f = open_text(text.data, text.size, path);
    struct triton_record r;
    for (unsigned i = 0; i < array_size(offsets); i++) {
        assert_int_equal(triton_file_next(f, &r), 1);
        assert_int_equal(r.id, i);
        assert_int_equal(r.offset, offsets[i]);
        assert_int_equal(r.stamps[0].ns, i * 3);
    }
    assert_int_equal(triton_file_next(f, &r), 0);
    assert_int_equal(triton_file_report(f)->bytes, text.size);
    assert_false(triton_file_report(f)->is_cut);
}

static void test_broken_object_is_skipped(void **state)
{
    (void)state;
    OPEN("[{\"id\":1},{\"id\":2,\"request_id\":\"a\"b\"},{ \"id\":3}]");
    assert_int_equal(triton_file_next(f, &r), 1);
    assert_int_equal(triton_file_next(f, &r), 1);
    assert_int_equal(r.id, 3);
    assert_int_equal(r.offset, 38);
    assert_int_equal(triton_file_next(f, &r), 0);
    assert_int_equal(report->bad, 1);
    assert_int_equal(report->first_bad, 34);
    assert_int_equal(report->bad_bytes, 28);
    assert_string_equal(report->first_reason, "a comma or the end of the object or array is expected here");
    assert_false(report->is_cut);
}

static void test_truncated_file(void **state)
{
    (void)state;
    OPEN("[{\"id\":1},{\"id\":2,\"timesta");
    assert_int_equal(triton_file_next(f, &r), 1);
    assert_int_equal(triton_file_next(f, &r), 0);
    assert_true(report->is_cut);
    assert_int_equal(report->cut, 9);
    assert_int_equal(report->bad, 0);
}

static void test_concatenated_arrays(void **state)
{
    (void)state;
    OPEN("[{\"id\":1}]\n[{\"id\":2}] x [{\"id\":3}]");
    for (unsigned id = 1; id <= 3; id++) {
        assert_int_equal(triton_file_next(f, &r), 1);
        assert_int_equal(r.id, id);
    }
    assert_int_equal(triton_file_next(f, &r), 0);
    assert_int_equal(report->bad, 1);
    assert_int_equal(report->first_bad, 22);
}

static void test_arbitrary_bytes_are_kept(void **state)
{
    (void)state;
    OPEN(
        "[{\"id\":1,\"tensor\":{\"data\":\"\x01\xFF\0,\"},\"activity\":\"\xC3\xA9\"},{\"id\":2,\"request_id\":\"\xC3\xA9\"}]");
    assert_int_equal(triton_file_next(f, &r), 1);
    assert_int_equal(r.tensor.data.size, 4);
    assert_memory_equal(r.tensor.data.at, "\x01\xFF\0,", 4);
    assert_int_equal(triton_file_next(f, &r), 1);
    assert_int_equal(triton_file_next(f, &r), 0);
    assert_int_equal(report->odd, 1);
    assert_int_equal(report->first_odd, 1);
}

static void test_file_without_traces(void **state)
{
    (void)state;
    OPEN("  {\"id\":1}");
    (void)report;
    assert_int_equal(triton_file_next(f, &r), -EILSEQ);
    struct triton_file *none = NULL;
    assert_int_equal(triton_file_open("/nowhere", &none), -ENOENT);
    assert_int_equal(triton_file_open("/", &none), -EISDIR);
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_member_is_read),
        cmocka_unit_test(test_fast_and_general_parser_agree),
        cmocka_unit_test(test_records_across_buffer_ends),
        cmocka_unit_test(test_broken_object_is_skipped),
        cmocka_unit_test(test_truncated_file),
        cmocka_unit_test(test_concatenated_arrays),
        cmocka_unit_test(test_arbitrary_bytes_are_kept),
        cmocka_unit_test(test_file_without_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
