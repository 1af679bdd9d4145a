/* Names of CPython's frames: lines by a table that CPython 3.11 made, texts of every width, what is forgotten and asked for again. */
#include "resolve/python.h"

#include "resolve/python_layout.h"
#include "resolve/python_lines.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* co_linetable of a function with loops, a comprehension, try and with, and the lines that its co_positions() tells: so many
 * instructions of that line, 0: none. */
static const uint8_t table[] = {
    128, 0,   229, 13,  18,  144, 49,  137, 88,  140, 88,  240, 0,   10,  5,   29,  240, 0,   10,  5,   29,
    136, 1,   216, 13,  14,  216, 13,  14,  216, 13,  14,  241, 3,   1,   14,  15,  241, 3,   2,   14,  15,
    136, 1,   240, 6,   6,   9,   29,  240, 2,   2,   17,  25,  240, 0,   2,   17,  25,  224, 17,  23,  240,
    5,   2,   17,  25,  241, 0,   2,   17,  25,  244, 0,   2,   17,  25,  136, 65,  136, 65,  248, 245, 6,
    0,   16,  26,  240, 0,   2,   9,   29,  240, 0,   2,   9,   29,  240, 0,   2,   9,   29,  221, 18,  26,
    216, 16,  17,  241, 3,   1,   19,  19,  244, 0,   1,   19,  19,  216, 24,  28,  240, 3,   1,   13,  29,
    248, 248, 248, 248, 240, 3,   2,   9,   29,  248, 248, 248, 245, 94,  9,   0,   10,  14,  136, 97,  137,
    23,  140, 23,  240, 0,   1,   5,   13,  144, 65,  216, 8,   12,  240, 3,   1,   5,   13,  240, 0,   1,
    5,   13,  240, 0,   1,   5,   13,  241, 0,   1,   5,   13,  244, 0,   1,   5,   13,  240, 0,   1,   5,
    13,  240, 0,   1,   5,   13,  240, 0,   1,   5,   13,  240, 0,   1,   5,   13,  240, 0,   1,   5,   13,
    240, 0,   1,   5,   13,  248, 248, 248, 240, 0,   1,   5,   13,  240, 0,   1,   5,   13,  240, 0,   1,
    5,   13,  240, 0,   1,   5,   13,  224, 11,  12,  128, 72};
static const struct {
    unsigned instructions, line;
} lines[] = {{1, 1},  {17, 3},  {1, 4},  {1, 5},  {1, 6},  {2, 5},  {3, 4},  {1, 7},   {2, 8},
             {1, 10}, {10, 8},  {1, 0},  {9, 11}, {6, 12}, {1, 13}, {7, 12}, {1, 13},  {1, 12},
             {4, 0},  {1, 11},  {3, 0},  {16, 314}, {1, 315}, {16, 314}, {3, 0}, {4, 314}, {2, 316}};

static void test_lines_are_those_of_cpython(void **state)
{
    (void)state;
    int64_t offset = 0;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        for (unsigned n = 0; n < lines[i].instructions; n++, offset += 2)
            if (python_line(table, sizeof(table), 1, offset) != lines[i].line)
                fail_msg("instruction at %d: line %u, not %u", (int)offset,
                         python_line(table, sizeof(table), 1, offset), lines[i].line);
    assert_int_equal(python_line(table, sizeof(table), 1, offset), 0); /* behind the last one */
    assert_int_equal(python_line(table, sizeof(table), 7, -2), 7);     /* a frame that has not begun */
    assert_int_equal(python_line(table, 0, 7, 0), 0);
}

static void test_lines_of_the_other_kinds_and_of_garbage(void **state)
{
    (void)state;
    /* Without columns (13): 2 lines back, for three instructions; 100 on (more than 6 bits), for one. */
    static const uint8_t no_columns[] = {0x80 | 13 << 3 | 2, 5, 0x80 | 13 << 3 | 0, 64 | (200 & 63), 200 >> 6};
    assert_int_equal(python_line(no_columns, sizeof(no_columns), 10, 4), 8);
    assert_int_equal(python_line(no_columns, sizeof(no_columns), 10, 6), 108);
    assert_int_equal(python_line(no_columns, sizeof(no_columns), 1, 0), 0); /* below the first line of all */
    uint8_t garbage[64];
    for (unsigned seed = 0; seed < 20000; seed++) { /* ends, within the table */
        srand(seed);
        for (size_t i = 0; i < sizeof(garbage); i++)
            garbage[i] = (uint8_t)rand();
        (void)python_line(garbage, (size_t)rand() % sizeof(garbage), 1, rand() % 600);
    }
}

#define PID 4711
#define INSTRUCTIONS 184

union record {
    struct python_code r;
    char room[sizeof(struct python_code) + 256];
};

/* Of texts with so many bytes a character. */
static void make(union record *u, uint64_t code, const void *file, uint32_t file_length, const void *name,
                 uint32_t name_length, unsigned width)
{
    memset(u, 0, sizeof(*u));
    u->r.h = (struct wire_header){.size_bytes = sizeof(u->r) + sizeof(table) + 5, .kind = WIRE_PYTHON_CODE, .pid = PID};
    u->r.code = code;
    u->r.check = 1;
    u->r.first_line = 1;
    u->r.instructions = INSTRUCTIONS;
    u->r.file = (struct python_text){file_length, width << 2};
    u->r.name = (struct python_text){name_length, width << 2};
    memcpy(u->r.file_data, file, file_length * width);
    memcpy(u->r.name_data, name, name_length * width);
    u->r.lines_bytes = sizeof(table);
    memcpy(u->r.lines, table, sizeof(table));
}

static struct python_entry entry_of(uint64_t code, uint32_t offset)
{
    return (struct python_entry){.code = code, .instruction = INSTRUCTIONS + offset, .check = 1};
}

static void test_texts_of_every_width_are_utf8(void **state)
{
    (void)state;
    _cleanup_(pythons_freep) struct pythons *p = NULL;
    union record u;
    struct python_name name;
    const uint16_t two[] = {0x433, 0x20ac, 0xd800};
    const uint32_t four[] = {'a', 0x1f40d, 0x110000};
    assert_int_equal(pythons_new(1 << 20, &p), 0);
    make(&u, 0x1000, "x.py", 4, "na\xefve\n", 6, 1);
    assert_true(python_code_is_sound(&u.r));
    pythons_take(p, &u.r);
    make(&u, 0x2000, two, 3, two, 2, 2);
    pythons_take(p, &u.r);
    make(&u, 0x3000, four, 2, four, 3, 4);
    pythons_take(p, &u.r);
    struct python_entry e = entry_of(0x1000, 2 * 18);
    assert_int_equal(pythons_find(p, PID, &e, &name), 0);
    assert_string_equal(name.file, "x.py");
    assert_string_equal(name.function, "na\xc3\xafve?"); /* one line of an output stays one */
    assert_int_equal(name.line, 4);
    e = entry_of(0x2000, 0);
    assert_int_equal(pythons_find(p, PID, &e, &name), 0);
    assert_string_equal(name.file, "\xd0\xb3\xe2\x82\xac\xef\xbf\xbd");
    e = entry_of(0x3000, 0);
    assert_int_equal(pythons_find(p, PID, &e, &name), 0);
    assert_string_equal(name.function, "a\xf0\x9f\x90\x8d\xef\xbf\xbd");
    e.instruction = UINT32_MAX; /* not in the code object */
    assert_int_equal(pythons_find(p, PID, &e, &name), 0);
    assert_int_equal(name.line, 0);
}

static void test_longer_texts_than_there_is_room_for_are_cut(void **state)
{
    (void)state;
    _cleanup_(pythons_freep) struct pythons *p = NULL;
    union record u;
    struct python_name name;
    assert_int_equal(pythons_new(1 << 20, &p), 0);
    make(&u, 0x1000, "x.py", 4, "f", 1, 1);
    memset(u.r.name_data, 'f', sizeof(u.r.name_data));
    u.r.name.length = UINT32_MAX;
    pythons_take(p, &u.r);
    const struct python_entry e = entry_of(0x1000, 0);
    assert_int_equal(pythons_find(p, PID, &e, &name), 0);
    assert_int_equal(strlen(name.function), PYTHON_NAME_BYTES);
}

static void test_only_what_is_meant_is_found(void **state)
{
    (void)state;
    _cleanup_(pythons_freep) struct pythons *p = NULL;
    union record u;
    struct python_name name;
    assert_int_equal(pythons_new(1 << 20, &p), 0);
    make(&u, 0x1000, "x.py", 4, "before", 6, 1);
    pythons_take(p, &u.r);
    struct python_entry e = entry_of(0x1000, 0);
    assert_int_equal(pythons_find(p, PID + 1, &e, &name), -ENOENT);
    e.check = 2; /* another code object at its address */
    assert_int_equal(pythons_find(p, PID, &e, &name), -ENOENT);
    struct python_missing missing[2];
    assert_int_equal(pythons_missing(p, missing, 2), 2);
    assert_true(missing[1].code == 0x1000 && missing[1].pid == PID && missing[1].check == 2);
    assert_int_equal(pythons_missing(p, missing, 2), 0);
    e.check = 0; /* could not be read: asking again would help nothing */
    assert_int_equal(pythons_find(p, PID, &e, &name), -ENOENT);
    assert_int_equal(pythons_missing(p, missing, 2), 0);
    make(&u, 0x1000, "x.py", 4, "after", 5, 1);
    u.r.check = e.check = 2;
    pythons_take(p, &u.r);
    assert_int_equal(pythons_find(p, PID, &e, &name), 0);
    assert_string_equal(name.function, "after");
}

static void test_the_oldest_is_forgotten_and_asked_for(void **state)
{
    (void)state;
    _cleanup_(pythons_freep) struct pythons *p = NULL;
    union record u;
    struct python_name name;
    assert_int_equal(pythons_new(8 << 10, &p), 0);
    for (uint64_t i = 0; i < 100; i++) {
        make(&u, 0x1000 + 16 * i, "x.py", 4, "f", 1, 1);
        pythons_take(p, &u.r);
    }
    struct python_entry e = entry_of(0x1000 + 16 * 99, 0);
    assert_int_equal(pythons_find(p, PID, &e, &name), 0);
    struct python_missing missing[1];
    assert_int_equal(pythons_missing(p, missing, 1), 0);
    e = entry_of(0x1000, 0);
    assert_int_equal(pythons_find(p, PID, &e, &name), -ENOENT);
    assert_int_equal(pythons_missing(p, missing, 1), 1);
    make(&u, 0x1000, "x.py", 4, "f", 1, 1);
    pythons_take(p, &u.r);
    pythons_take(p, &u.r); /* told by two CPUs */
    assert_int_equal(pythons_find(p, PID, &e, &name), 0);
    assert_int_equal(name.line, 1);
}

static void test_records_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    union record u;
    make(&u, 0x1000, "x.py", 4, "f", 1, 1);
    u.r.lines_bytes = u.r.h.size_bytes - sizeof(u.r) + 1;
    assert_false(python_code_is_sound(&u.r));
    make(&u, 0x1000, "x.py", 4, "f", 1, 1);
    u.r.file.state = 7 << 2; /* characters of 7 bytes */
    assert_false(python_code_is_sound(&u.r));
    make(&u, 0x1000, "x.py", 4, "f", 1, 1);
    u.r.h.size_bytes = sizeof(u.r) - 8;
    assert_false(python_code_is_sound(&u.r));
}

static void test_likely_files(void **state)
{
    (void)state;
    assert_true(python_layout_is_likely("/usr/bin/python3.11"));
    assert_true(python_layout_is_likely("/opt/conda/lib/libpython3.12.so.1.0"));
    assert_false(python_layout_is_likely("/usr/lib/libc.so.6"));
    assert_false(python_layout_is_likely("/opt/python/bin/server"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_those_of_cpython),
        cmocka_unit_test(test_lines_of_the_other_kinds_and_of_garbage),
        cmocka_unit_test(test_texts_of_every_width_are_utf8),
        cmocka_unit_test(test_longer_texts_than_there_is_room_for_are_cut),
        cmocka_unit_test(test_only_what_is_meant_is_found),
        cmocka_unit_test(test_the_oldest_is_forgotten_and_asked_for),
        cmocka_unit_test(test_records_that_make_no_sense_are_refused),
        cmocka_unit_test(test_likely_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
