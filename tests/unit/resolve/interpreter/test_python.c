/* Names of CPython's frames: lines by tables that CPython made, of each kind, texts of every width, what is held once
 * for many processes, what is forgotten and told again. */
#include "resolve/interpreter/interpreter.h"

#include "resolve/interpreter/python_layout.h"
#include "resolve/interpreter/python_lines.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Tables of functions with loops, comprehensions, try and with, lines that go back, and lines far apart; and what
 * CPython says of each: so many instructions of that line, 0: none. */
struct known_lines {
    unsigned instructions, line;
};

/* 3.11, by its co_positions(). */
static const uint8_t table[] = {
    128, 0,   229, 13,  18,  144, 49,  137, 88,  140, 88,  240, 0,   10,  5,   29,  240, 0,   10,  5,   29,  136, 1,
    216, 13,  14,  216, 13,  14,  216, 13,  14,  241, 3,   1,   14,  15,  241, 3,   2,   14,  15,  136, 1,   240, 6,
    6,   9,   29,  240, 2,   2,   17,  25,  240, 0,   2,   17,  25,  224, 17,  23,  240, 5,   2,   17,  25,  241, 0,
    2,   17,  25,  244, 0,   2,   17,  25,  136, 65,  136, 65,  248, 245, 6,   0,   16,  26,  240, 0,   2,   9,   29,
    240, 0,   2,   9,   29,  240, 0,   2,   9,   29,  221, 18,  26,  216, 16,  17,  241, 3,   1,   19,  19,  244, 0,
    1,   19,  19,  216, 24,  28,  240, 3,   1,   13,  29,  248, 248, 248, 248, 240, 3,   2,   9,   29,  248, 248, 248,
    245, 94,  9,   0,   10,  14,  136, 97,  137, 23,  140, 23,  240, 0,   1,   5,   13,  144, 65,  216, 8,   12,  240,
    3,   1,   5,   13,  240, 0,   1,   5,   13,  240, 0,   1,   5,   13,  241, 0,   1,   5,   13,  244, 0,   1,   5,
    13,  240, 0,   1,   5,   13,  240, 0,   1,   5,   13,  240, 0,   1,   5,   13,  240, 0,   1,   5,   13,  240, 0,
    1,   5,   13,  240, 0,   1,   5,   13,  248, 248, 248, 240, 0,   1,   5,   13,  240, 0,   1,   5,   13,  240, 0,
    1,   5,   13,  240, 0,   1,   5,   13,  224, 11,  12,  128, 72};
static const struct known_lines lines[] = {{1, 1},    {17, 3},  {1, 4},    {1, 5},  {1, 6},   {2, 5},  {3, 4},
                                           {1, 7},    {2, 8},   {1, 10},   {10, 8}, {1, 0},   {9, 11}, {6, 12},
                                           {1, 13},   {7, 12},  {1, 13},   {1, 12}, {4, 0},   {1, 11}, {3, 0},
                                           {16, 314}, {1, 315}, {16, 314}, {3, 0},  {4, 314}, {2, 316}};

/* 3.8, by dis.findlinestarts(). */
static const uint8_t table_38[] = {0, 3,   2, 1, 2,  1,   4,  1,   2,  255, 2,  2,   2,  251, 4, 6,  8,   1, 4,   1,
                                   6, 1,   4, 0, 18, 1,   28, 2,   14, 1,   10, 2,   12, 127, 0, 14, 4,   1, 2,   127,
                                   0, 127, 0, 7, 2,  128, 0,  128, 0,  251, 6,  127, 0,  127, 0, 8,  255, 0, 165, 1};
static const struct known_lines lines_38[] = {{1, 4},  {1, 5},   {2, 6},   {1, 7},   {1, 6},   {1, 8},     {2, 3},
                                              {4, 9},  {2, 10},  {3, 11},  {11, 12}, {14, 13}, {7, 15},    {5, 16},
                                              {6, 18}, {2, 159}, {1, 160}, {1, 421}, {3, 160}, {210, 422}, {6, 423}};

/* 3.9, by dis.findlinestarts(). */
static const uint8_t table_39[] = {0, 3,   2, 1, 2,   1,   4, 1,   2, 255, 2, 2,   2, 251, 4,   6, 8,   1, 4,   1, 6,
                                   1, 20,  6, 8, 250, 2,   1, 48,  2, 12,  1, 8,   2, 22,  127, 0, 14,  4, 1,   2, 127,
                                   0, 127, 0, 7, 2,   128, 0, 128, 0, 251, 6, 127, 0, 127, 0,   8, 255, 0, 165, 1};
static const struct known_lines lines_39[] = {{1, 4},   {1, 5},   {2, 6},   {1, 7},     {1, 6},   {1, 8},
                                              {2, 3},   {4, 9},   {2, 10},  {3, 11},    {10, 12}, {4, 18},
                                              {1, 12},  {24, 13}, {6, 15},  {4, 16},    {11, 18}, {2, 159},
                                              {1, 160}, {1, 421}, {3, 160}, {210, 422}, {6, 423}};

/* 3.10, by its co_lines(), which dis.findlinestarts() agrees with. */
static const uint8_t table_310[] = {2, 3,   2, 1,   4,  1,   2,  1,   2,  255, 2,  2,   4,   251, 8,   6,   4,  1,
                                    6, 1,   4, 1,   16, 255, 10, 7,   16, 251, 28, 254, 4,   128, 12,  4,   4,  1,
                                    2, 255, 2, 128, 20, 3,   0,  127, 4,  14,  2,  1,   0,   127, 0,   127, 2,  7,
                                    0, 129, 0, 129, 4,  249, 4,  255, 0,  127, 0,  127, 254, 9,   166, 0,   12, 1};
static const struct known_lines lines_310[] = {{1, 4},   {1, 5},   {2, 6},   {1, 7},   {1, 6},   {1, 8},     {2, 3},
                                               {4, 9},   {2, 10},  {3, 11},  {2, 12},  {8, 11},  {5, 18},    {8, 13},
                                               {14, 11}, {2, 0},   {6, 15},  {2, 16},  {1, 15},  {1, 0},     {10, 18},
                                               {2, 159}, {1, 160}, {1, 421}, {2, 160}, {2, 159}, {210, 422}, {6, 423}};

static void expect_lines(enum python_lines kind, const uint8_t *bytes, size_t size, const struct known_lines *known,
                         size_t count)
{
    int64_t offset = 0;
    for (size_t i = 0; i < count; i++)
        for (unsigned n = 0; n < known[i].instructions; n++, offset += 2)
            if (python_line(kind, bytes, size, 1, offset) != known[i].line)
                fail_msg("kind %u, instruction at %d: line %u, not %u", kind, (int)offset,
                         python_line(kind, bytes, size, 1, offset), known[i].line);
    if (kind != PYTHON_LINES_LNOTAB) /* which does not say where the last line ends */
        assert_int_equal(python_line(kind, bytes, size, 1, offset), 0);
    assert_int_equal(python_line(kind, bytes, size, 7, -2), 7); /* a frame that has not begun */
}

#define EXPECT_LINES(kind, bytes, known)                                                                               \
    expect_lines(kind, bytes, sizeof(bytes), known, sizeof(known) / sizeof((known)[0]))

static void test_lines_match_cpython(void **state)
{
    (void)state;
    EXPECT_LINES(PYTHON_LINES_LOCATIONS, table, lines);
    EXPECT_LINES(PYTHON_LINES_RANGES, table_310, lines_310);
    EXPECT_LINES(PYTHON_LINES_LNOTAB, table_39, lines_39);
    EXPECT_LINES(PYTHON_LINES_LNOTAB, table_38, lines_38);
    assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, table, 0, 7, 0), 0);
    assert_int_equal(python_line(PYTHON_LINES_RANGES, table, 0, 7, 0), 0);
    assert_int_equal(python_line(PYTHON_LINES_LNOTAB, table, 0, 7, 0), 7); /* lambda: all in one line */
    assert_int_equal(python_line(PYTHON_LINES_UNTOLD, table, 0, 7, 0), 0);
}

static void test_lines_without_columns_and_of_garbage(void **state)
{
    (void)state;
    /* Without columns (13): 2 lines back, for three instructions; 100 on (more than 6 bits), for one. */
    static const uint8_t no_columns[] = {0x80 | 13 << 3 | 2, 5, 0x80 | 13 << 3 | 0, 64 | (200 & 63), 200 >> 6};
    assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, no_columns, sizeof(no_columns), 10, 4), 8);
    assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, no_columns, sizeof(no_columns), 10, 6), 108);
    assert_int_equal(python_line(PYTHON_LINES_LOCATIONS, no_columns, sizeof(no_columns), 1, 0),
                     0);                                  /* below the first line of all */
    static const uint8_t back[] = {2, 0x80 | 1, 4, 1, 9}; /* 127 lines back; the last pair is no pair */
    assert_int_equal(python_line(PYTHON_LINES_RANGES, back, sizeof(back), 100, 0), 0);
    assert_int_equal(python_line(PYTHON_LINES_RANGES, back, sizeof(back), 200, 2), 74);
    assert_int_equal(python_line(PYTHON_LINES_LNOTAB, back, sizeof(back), 100, 2), 0);
    assert_int_equal(python_line(PYTHON_LINES_LNOTAB, back, sizeof(back), 200, 100), 74);
    uint8_t garbage[64];
    for (unsigned seed = 0; seed < 20000; seed++) { /* ends, within the table */
        srand(seed);
        for (size_t i = 0; i < sizeof(garbage); i++)
            garbage[i] = (uint8_t)rand();
        (void)python_line(seed % PYTHON_LINES_COUNT, garbage, (size_t)rand() % sizeof(garbage), 1, rand() % 600);
    }
}

#define PID          4711
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
    u->r.h =
        (struct record_header){.size_bytes = sizeof(u->r) + sizeof(table) + 5, .kind = RECORD_PYTHON_CODE, .pid = PID};
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

static const struct interpreter *const cpython = &interpreter_cpython;

static void closep_python(void **p)
{
    cpython->free(*p);
}

static void take(void *p, const union record *u)
{
    assert_int_equal(cpython->take(p, &u->r.h), 0);
}

static struct python_entry entry_of(uint64_t code, uint32_t offset)
{
    return (struct python_entry){.code = code, .instruction = INSTRUCTIONS + offset, .check = 1};
}

static void test_strings_of_every_width_become_utf8(void **state)
{
    (void)state;
    _cleanup_(closep_python) void *p = NULL;
    union record u;
    struct interpreted_name name;
    const uint16_t two[] = {0x433, 0x20ac, 0xd800};
    const uint32_t four[] = {'a', 0x1f40d, 0x110000};
    assert_int_equal(cpython->open(1 << 20, &p), 0);
    make(&u, 0x1000, "x.py", 4, "na\xefve\n", 6, 1);
    assert_true(python_code_is_sound(&u.r));
    take(p, &u);
    make(&u, 0x2000, two, 3, two, 2, 2);
    take(p, &u);
    make(&u, 0x3000, four, 2, four, 3, 4);
    take(p, &u);
    struct python_entry e = entry_of(0x1000, 2 * 18);
    assert_int_equal(cpython->find(p, PID, &e, &name), 0);
    assert_string_equal(name.file, "x.py");
    assert_string_equal(name.function, "na\xc3\xafve?"); /* one line of an output stays one */
    assert_int_equal(name.line, 4);
    e = entry_of(0x2000, 0);
    assert_int_equal(cpython->find(p, PID, &e, &name), 0);
    assert_string_equal(name.file, "\xd0\xb3\xe2\x82\xac\xef\xbf\xbd");
    e = entry_of(0x3000, 0);
    assert_int_equal(cpython->find(p, PID, &e, &name), 0);
    assert_string_equal(name.function, "a\xf0\x9f\x90\x8d\xef\xbf\xbd");
    e.instruction = UINT32_MAX; /* not in the code object */
    assert_int_equal(cpython->find(p, PID, &e, &name), 0);
    assert_int_equal(name.line, 0);
}

static void test_long_strings_are_truncated(void **state)
{
    (void)state;
    _cleanup_(closep_python) void *p = NULL;
    union record u;
    struct interpreted_name name;
    assert_int_equal(cpython->open(1 << 20, &p), 0);
    make(&u, 0x1000, "x.py", 4, "f", 1, 1);
    memset(u.r.name_data, 'f', sizeof(u.r.name_data));
    u.r.name.length = UINT32_MAX;
    take(p, &u);
    const struct python_entry e = entry_of(0x1000, 0);
    assert_int_equal(cpython->find(p, PID, &e, &name), 0);
    assert_int_equal(strlen(name.function), PYTHON_NAME_BYTES);
}

static void test_code_objects_are_found_by_exact_key(void **state)
{
    (void)state;
    _cleanup_(closep_python) void *p = NULL;
    union record u;
    struct interpreted_name name;
    assert_int_equal(cpython->open(1 << 20, &p), 0);
    make(&u, 0x1000, "x.py", 4, "before", 6, 1);
    take(p, &u);
    struct python_entry e = entry_of(0x1000, 0);
    assert_int_equal(cpython->find(p, PID + 1, &e, &name), -ENOENT);
    e.check = 2; /* another code object at its address */
    assert_int_equal(cpython->find(p, PID, &e, &name), -ENOENT);
    struct missing_code missing[2];
    assert_int_equal(cpython->missing(p, missing, 2), 2);
    assert_true(missing[1].code == 0x1000 && missing[1].pid == PID && missing[1].check == 2);
    assert_int_equal(cpython->missing(p, missing, 2), 0);
    e.check = 0; /* could not be read: asking again would help nothing */
    assert_int_equal(cpython->find(p, PID, &e, &name), -ENOENT);
    assert_int_equal(cpython->missing(p, missing, 2), 0);
    make(&u, 0x1000, "x.py", 4, "after", 5, 1);
    u.r.check = e.check = 2;
    take(p, &u);
    assert_int_equal(cpython->find(p, PID, &e, &name), 0);
    assert_string_equal(name.function, "after");
}

static double held_bytes(void *p)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    cpython->metrics(p, set);
    for (size_t i = 0; i < metric_set_families(set); i++)
        if (strcmp(metric_set_family(set, i).name, "sonde_self_python_code_bytes") == 0)
            return metric_set_family(set, i).points[0].value;
    fail();
    return 0;
}

/* Code object number `i`, of all functions with names of their own; told by `pid`. */
static void take_number(void *p, uint32_t pid, unsigned i)
{
    union record u;
    char name[16];
    snprintf(name, sizeof(name), "f%06u", i);
    make(&u, 0x1000 + 16 * (uint64_t)i, "x.py", 4, name, (uint32_t)strlen(name), 1);
    u.r.h.pid = pid;
    take(p, &u);
}

static bool finds_number(void *p, uint32_t pid, unsigned i)
{
    const struct python_entry e = entry_of(0x1000 + 16 * (uint64_t)i, 2 * 18);
    struct interpreted_name name;
    if (cpython->find(p, pid, &e, &name) < 0)
        return false;
    assert_int_equal(strtoul(name.function + 1, NULL, 10), i);
    assert_string_equal(name.file, "x.py");
    assert_int_equal(name.line, 4);
    return true;
}

/* What is forgotten is to be told again by the kernel half: number `i` must be, and nothing else. */
static void expect_missing(void *p, unsigned i)
{
    struct missing_code missing[2];
    assert_int_equal(cpython->missing(p, missing, 2), 1);
    assert_int_equal(missing[0].code, 0x1000 + 16 * (uint64_t)i);
    assert_true(missing[0].pid == PID && missing[0].check == 1);
}

#define WORKERS 40
#define EACH    200

static void test_equal_names_of_processes_are_stored_once(void **state)
{
    (void)state;
    _cleanup_(closep_python) void *p = NULL;
    assert_int_equal(cpython->open(1 << 20, &p), 0);
    const double empty = held_bytes(p);
    for (unsigned i = 0; i < EACH; i++)
        take_number(p, PID, i);
    const double one = held_bytes(p) - empty;
    assert_true(one > EACH * sizeof(table));
    for (unsigned worker = 1; worker < WORKERS; worker++)
        for (unsigned i = 0; i < EACH; i++)
            take_number(p, PID + worker, i);
    const double all = held_bytes(p) - empty;
    assert_true(all - one == (WORKERS - 1) * EACH * 44.0);
    for (unsigned worker = 0; worker < WORKERS; worker++)
        for (unsigned i = 0; i < EACH; i++)
            assert_true(finds_number(p, PID + worker, i));
    for (unsigned i = 0; i < EACH; i++) /* told once more: by another CPU, or driven out of the kernel half's table */
        take_number(p, PID, i);
    assert_true(held_bytes(p) - empty == all);
    /* The same names, in one byte else: of another line. */
    union record u;
    make(&u, 0x1000, "x.py", 4, "f000000", 7, 1);
    u.r.h.pid = PID + WORKERS;
    u.r.first_line = 2;
    take(p, &u);
    assert_true(held_bytes(p) - empty > all + 44 + sizeof(table));
    const struct python_entry e = entry_of(0x1000, 2 * 18);
    struct interpreted_name name;
    assert_int_equal(cpython->find(p, PID + WORKERS, &e, &name), 0);
    assert_int_equal(name.line, 5);
    assert_true(finds_number(p, PID, 0));
    struct missing_code missing[1];
    assert_int_equal(cpython->missing(p, missing, 1), 0);
}

static void test_least_recently_used_is_evicted_and_re_emitted(void **state)
{
    (void)state;
    _cleanup_(closep_python) void *p = NULL;
    unsigned room = 0;
    struct missing_code missing[1];
    assert_int_equal(cpython->open(32 << 10, &p), 0);
    do
        take_number(p, PID, room++);
    while (cpython->missing(p, missing, 1) == 0);
    assert_int_equal(missing[0].code, 0x1000); /* 0 was the oldest */
    room--;
    assert_true(room > 10);
    assert_true(finds_number(p, PID, 1)); /* used: so 2 is the oldest */
    take_number(p, PID, 3);               /* told again: now the newest */
    take_number(p, PID, room + 1);
    expect_missing(p, 2);
    take_number(p, PID, room + 2);
    expect_missing(p, 4);
    assert_true(finds_number(p, PID, 1) && finds_number(p, PID, 3));
    assert_false(finds_number(p, PID, 2));
    expect_missing(p, 2); /* met, and asked for once more */
    take_number(p, PID, 2);
    expect_missing(p, 5);
    assert_true(finds_number(p, PID, 2));
}

/* Whatever is told, what is held stays within the bound, and what was told last is there. */
static void test_memory_is_bounded(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 4096, 100000, 1 << 20};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        _cleanup_(closep_python) void *p = NULL;
        assert_int_equal(cpython->open(sizes[s], &p), 0);
        const double bound = held_bytes(p) + (double)sizes[s] + 1024; /* one is held in any case */
        for (unsigned i = 0; i < 60000; i++) {
            const unsigned number = i % 3 ? i / 2 : i % 100; /* other ones, and the same of many processes */
            take_number(p, PID + i % 977, number);
            assert_true(finds_number(p, PID + i % 977, number));
            if (i % 100 == 0)
                assert_true(held_bytes(p) <= bound);
        }
        struct missing_code missing[64];
        size_t count = 0, n;
        while ((n = cpython->missing(p, missing, 64)) > 0)
            count += n;
        assert_true(count > 0 && count <= 60000);
    }
}

static void test_invalid_records_are_refused(void **state)
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
    u.r.lines_kind = PYTHON_LINES_COUNT;
    assert_false(python_code_is_sound(&u.r));
    make(&u, 0x1000, "x.py", 4, "f", 1, 1);
    u.r.h.size_bytes = sizeof(u.r) - 8;
    assert_false(python_code_is_sound(&u.r));
}

static void test_candidate_file_names(void **state)
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
        cmocka_unit_test(test_lines_match_cpython),
        cmocka_unit_test(test_lines_without_columns_and_of_garbage),
        cmocka_unit_test(test_strings_of_every_width_become_utf8),
        cmocka_unit_test(test_long_strings_are_truncated),
        cmocka_unit_test(test_code_objects_are_found_by_exact_key),
        cmocka_unit_test(test_equal_names_of_processes_are_stored_once),
        cmocka_unit_test(test_least_recently_used_is_evicted_and_re_emitted),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_invalid_records_are_refused),
        cmocka_unit_test(test_candidate_file_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
