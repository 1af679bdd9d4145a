/* Jitdump records: code that is loaded, moved and overwritten, by time; lines; and invalid records. */
#include "../jitdump_records.h"

#include "resolve/jit/jitdump.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>

#include <cmocka.h>

#define CODE 0x7f0000001000u

struct fixture {
    struct dump dump;
    struct code_ranges ranges;
    struct jitdump_reading reading;
    size_t position;
    uint64_t bad;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    *state = f;
    dump_header(&f->dump, 77);
    f->position = f->dump.size;
    f->reading = (struct jitdump_reading){.until_ns = UINT64_MAX, .has_times = true, .debug_address = UINT64_MAX};
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    code_ranges_clear(&f->ranges);
    free(f);
    return 0;
}

/* Reads everything, in pieces of `piece` bytes. */
static int read_dump(struct fixture *f, size_t piece)
{
    int64_t n = 1;
    while (f->position < f->dump.size && n > 0) {
        const size_t left = f->dump.size - f->position, size = left < piece ? left : piece;
        void *copy = malloc(size); /* exactly that size, for the sanitizer */
        memcpy(copy, f->dump.data + f->position, size);
        n = jitdump_take(&f->ranges, &f->reading, copy, size, (uint32_t)f->position, &f->bad);
        free(copy);
        f->position += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? (int)n : 0;
}

/* The name at the address, "" for none; its line in *ret_line. */
static const char *name_at(struct fixture *f, uint64_t address, const char **ret_file, uint32_t *ret_line)
{
    struct code_range range;
    static struct jitdump_code code;
    if (!code_ranges_find(&f->ranges, address, &range) ||
        !jitdump_describe(f->dump.data + range.place, f->dump.size - range.place, address - range.start, 0, &code))
        return "";
    assert_int_equal(code.size, range.size);
    if (ret_line) {
        *ret_file = code.file;
        *ret_line = code.line;
    }
    return code.name;
}

static void test_header_is_checked(void **state)
{
    struct fixture *f = *state;
    struct jitdump_header header;
    assert_int_equal(jitdump_header_parse(f->dump.data, 40, &header), 0);
    assert_int_equal(header.bytes, 40);
    assert_int_equal(header.pid, 77);
    assert_true(header.has_times);
    for (size_t size = 4; size < 40; size++)
        assert_int_equal(jitdump_header_parse(f->dump.data, size, &header), -EAGAIN);
    struct dump other = f->dump;
    other.data[32] = 1; /* the CPU's own clock */
    assert_int_equal(jitdump_header_parse(other.data, 40, &header), 0);
    assert_false(header.has_times);
    other = f->dump;
    other.data[4] = 2;
    assert_int_equal(jitdump_header_parse(other.data, 40, &header), -ENOTSUP);
    other = f->dump;
    other.data[12] = EM_S390;
    assert_int_equal(jitdump_header_parse(other.data, 40, &header), -ENOTSUP);
    other = f->dump;
    other.data[8] = 39; /* of bytes */
    assert_int_equal(jitdump_header_parse(other.data, 40, &header), -EBADMSG);
    assert_int_equal(jitdump_header_parse("JiTD-of-another-byte-order", 26, &header), -ENOTSUP);
    assert_int_equal(jitdump_header_parse("\177ELF....", 8, &header), -EBADMSG);
}

static void test_code_load_move_and_overwrite(void **state)
{
    struct fixture *f = *state;
    dump_load(&f->dump, 10, CODE, 64, "one");
    dump_load(&f->dump, 20, CODE + 64, 64, "two");
    dump_move(&f->dump, 30, CODE, CODE + 4096, 64);
    dump_load(&f->dump, 40, CODE + 32, 64, "three");          /* over half of two */
    dump_move(&f->dump, 50, CODE + 9999, CODE + 4096 + 8, 8); /* of code never loaded, over one that was */
    assert_int_equal(read_dump(f, 100), 0);
    assert_string_equal(name_at(f, CODE + 31, NULL, NULL), "");
    assert_string_equal(name_at(f, CODE + 32, NULL, NULL), "three");
    assert_string_equal(name_at(f, CODE + 100, NULL, NULL), "");
    assert_string_equal(name_at(f, CODE + 4096, NULL, NULL), "");
    assert_int_equal(f->ranges.count, 1);
    assert_int_equal(f->bad, 0);
}

/* As seen by a sample at each time. */
static void test_later_records_wait_for_their_time(void **state)
{
    struct fixture *f = *state;
    dump_load(&f->dump, 10, CODE, 64, "one");
    dump_load(&f->dump, 20, CODE, 64, "two");
    dump_move(&f->dump, 30, CODE, CODE + 128, 64);
    static const struct {
        uint64_t until_ns, next_ns;
        const char *here, *there;
    } moments[] = {{9, 10, "", ""}, {10, 20, "one", ""}, {19, 20, "one", ""}, {29, 30, "two", ""}, {30, 0, "", "two"}};
    for (size_t i = 0; i < sizeof(moments) / sizeof(*moments); i++) {
        f->reading.until_ns = moments[i].until_ns;
        assert_int_equal(read_dump(f, 65536), 0);
        assert_int_equal(f->reading.next_ns, moments[i].next_ns);
        assert_string_equal(name_at(f, CODE, NULL, NULL), moments[i].here);
        assert_string_equal(name_at(f, CODE + 128, NULL, NULL), moments[i].there);
    }
}

static void test_line_records(void **state)
{
    struct fixture *f = *state;
    const struct dump_line lines[] = {{CODE + 8, 11, "a.js"}, {CODE + 16, 12, NULL}, {CODE + 32, 7, "b.js"}};
    const char *file;
    uint32_t line;
    dump_lines(&f->dump, 10, CODE, lines, 3);
    dump_record(&f->dump, 4, 10, (const uint64_t[]){1, 2, 3}, 3, NULL, 0); /* unwinding information */
    dump_load(&f->dump, 10, CODE, 64, "one");
    dump_load(&f->dump, 11, CODE + 64, 64, "without");
    dump_lines(&f->dump, 12, CODE + 192, lines, 3); /* of code that is not loaded */
    dump_load(&f->dump, 12, CODE + 128, 64, "other");
    dump_move(&f->dump, 20, CODE, CODE + 4096, 64);
    assert_int_equal(read_dump(f, 100), 0);
    static const struct {
        unsigned at;
        const char *file;
        uint32_t line;
    } expected[] = {{0, "", 0},       {7, "", 0},      {8, "a.js", 11}, {16, "a.js", 12},
                    {31, "a.js", 12}, {32, "b.js", 7}, {63, "b.js", 7}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        assert_string_equal(name_at(f, CODE + 4096 + expected[i].at, &file, &line), "one");
        assert_string_equal(file, expected[i].file);
        assert_int_equal(line, expected[i].line);
    }
    assert_string_equal(name_at(f, CODE + 64, &file, &line), "without");
    assert_int_equal(line, 0);
    assert_string_equal(name_at(f, CODE + 128, &file, &line), "other");
    assert_int_equal(line, 0);
}

static void test_records_after_close_are_ignored(void **state)
{
    struct fixture *f = *state;
    dump_load(&f->dump, 10, CODE, 64, "one");
    dump_record(&f->dump, 3, 11, NULL, 0, NULL, 0);
    dump_load(&f->dump, 12, CODE, 64, "two");
    assert_int_equal(read_dump(f, 65536), 0);
    assert_true(f->reading.closed);
    assert_string_equal(name_at(f, CODE, NULL, NULL), "one");
}

static void test_invalid_records_are_skipped(void **state)
{
    struct fixture *f = *state;
    dump_load(&f->dump, 10, CODE, 64, "one");
    const uint64_t empty[] = {0, CODE, CODE, 0, 1}, huge[] = {0, CODE, CODE, UINT64_MAX, 1},
                   kernel[] = {0, 0, UINT64_MAX - 5, 64, 1};
    dump_record(&f->dump, 0, 11, empty, 5, "e", 2);
    dump_record(&f->dump, 0, 11, huge, 5, "h", 2);
    dump_record(&f->dump, 0, 11, kernel, 5, "k", 2);
    dump_record(&f->dump, 0, 11, empty, 2, NULL, 0); /* ends early */
    dump_move(&f->dump, 12, CODE, CODE, 0);
    dump_record(&f->dump, 99, 13, empty, 5, NULL, 0); /* an unknown kind */
    dump_load(&f->dump, 14, CODE + 64, 64, "last");
    assert_int_equal(read_dump(f, 65536), 0);
    assert_int_equal(f->bad, 5);
    assert_string_equal(name_at(f, CODE, NULL, NULL), "one");
    assert_string_equal(name_at(f, CODE + 64, NULL, NULL), "last");

    const uint32_t head[] = {0, 15}; /* a record shorter than its header */
    dump_put(&f->dump, head, sizeof(head));
    dump_put(&f->dump, &(uint64_t){15}, 8);
    assert_int_equal(read_dump(f, 65536), -EBADMSG);
}

static void test_partial_record_is_completed_later(void **state)
{
    struct fixture *f = *state;
    dump_load(&f->dump, 10, CODE, 512, "one");
    const size_t whole = f->dump.size;
    for (f->dump.size = f->position; f->dump.size < f->position + 63; f->dump.size++) {
        assert_int_equal(read_dump(f, 65536), 0);
        assert_int_equal(f->ranges.count, 0);
        assert_int_equal(f->position, 40);
    }
    f->dump.size = whole;
    assert_int_equal(read_dump(f, 100), 0);
    assert_string_equal(name_at(f, CODE + 511, NULL, NULL), "one");
    assert_int_equal(f->position, whole);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_header_is_checked),
        TEST(test_code_load_move_and_overwrite),
        TEST(test_later_records_wait_for_their_time),
        TEST(test_line_records),
        TEST(test_records_after_close_are_ignored),
        TEST(test_invalid_records_are_skipped),
        TEST(test_partial_record_is_completed_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
