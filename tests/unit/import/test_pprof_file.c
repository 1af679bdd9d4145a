/* pprof_file.c: our exports round-trip; messages built here field by field, in every form that the format allows;
 * damage is refused. tests/e2e/test_diff.py checks files of other programs. */
#include "export/export.h"
#include "import/pprof_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "../fixture.h"

/* ---- messages ---- */

static void put_number(struct buf *b, unsigned field, uint64_t value)
{
    buf_putc(b, (char)(field << 3));
    for (; value >= 0x80; value >>= 7)
        buf_putc(b, (char)(value | 0x80));
    buf_putc(b, (char)value);
}

static void put_bytes(struct buf *b, unsigned field, const void *data, size_t size)
{
    assert_true(size < 0x80);
    buf_putc(b, (char)(field << 3 | 2));
    buf_putc(b, (char)size);
    buf_append(b, data, size);
}

static void put_pair(struct buf *to, unsigned field, unsigned first, uint64_t a, unsigned second, uint64_t b)
{
    _cleanup_buf_ struct buf m = {0};
    put_number(&m, first, a);
    put_number(&m, second, b);
    put_bytes(to, field, m.data, m.size);
}

/* Types allocations and cpu; two functions, the second inlined into the first; a location without a name. */
static void put_tables(struct buf *b, uint64_t default_type)
{
    static const char *const texts[] = {"", "samples", "count", "cpu", "nanoseconds", "outer", "inner", "/bin/program"};
    _cleanup_buf_ struct buf place = {0};
    put_pair(b, 1, 1, 1, 2, 2);
    put_pair(b, 1, 1, 3, 2, 4);
    put_number(&place, 1, 7); /* ids are arbitrary */
    put_number(&place, 2, 9);
    put_pair(&place, 4, 1, 22, 2, 12);
    put_pair(&place, 4, 1, 11, 2, 30);
    put_bytes(b, 4, place.data, place.size);
    put_pair(b, 4, 1, 3, 3, 0x1234);
    put_pair(b, 5, 1, 22, 2, 6);
    put_pair(b, 5, 1, 11, 2, 5);
    put_pair(b, 3, 1, 9, 5, 7);
    for (size_t i = 0; i < array_size(texts); i++)
        put_bytes(b, 6, texts[i], strlen(texts[i]));
    put_number(b, 14, default_type);
}

static void put_sample(struct buf *b, const uint8_t *places, size_t count, uint64_t samples, uint64_t value,
                       bool packed)
{
    _cleanup_buf_ struct buf m = {0};
    if (packed) {
        put_bytes(&m, 1, places, count);
        put_bytes(&m, 2, (uint8_t[]){(uint8_t)samples, (uint8_t)value}, 2);
    } else {
        for (size_t i = 0; i < count; i++)
            put_number(&m, 1, places[i]);
        put_number(&m, 2, samples);
        put_number(&m, 2, value);
    }
    put_bytes(b, 2, m.data, m.size);
}

static const char *function_of(const struct profile *p, uint32_t stack, uint32_t at)
{
    return profile_text(p, p->frames[p->stack_frames[p->stacks[stack].first + at]].function);
}

/* ---- tests ---- */

static void test_every_encoding_is_read(void **state)
{
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        _cleanup_buf_ struct buf b = {0};
        _cleanup_(profile_freep) struct profile *p = NULL;
        struct pprof_about about;
        put_sample(&b, (uint8_t[]){7, 3}, 2, 2, 50, packed); /* before the tables */
        put_tables(&b, 3);
        put_sample(&b, (uint8_t[]){3}, 1, 1, 25, packed);
        put_sample(&b, (uint8_t[]){3}, 1, 1, 0, packed);
        assert_int_equal(pprof_read(b.data, b.size, NULL, &p, &about), 0);
        assert_string_equal(about.type, "cpu");
        assert_string_equal(about.unit, "nanoseconds");
        assert_true(about.samples == 3 && about.without == 1);
        assert_int_equal(p->entry_count, 2);
        assert_true(p->entries[0].value == 50 && p->entries[0].count == 2 && p->entries[1].value == 25);
        assert_int_equal(p->stacks[p->entries[0].stack].count, 3);
        assert_string_equal(function_of(p, p->entries[0].stack, 0), "inner");
        assert_string_equal(function_of(p, p->entries[0].stack, 1), "outer");
        assert_string_equal(function_of(p, p->entries[0].stack, 2), "");
        const struct profile_frame *inner = &p->frames[p->stack_frames[p->stacks[p->entries[0].stack].first]];
        assert_int_equal(inner->line, 12);
        assert_string_equal(profile_text(p, inner->mapping), "/bin/program");
    }
}

/* Values without a count type: the period gives the sample count, if it has their unit. */
static void test_sample_count_from_the_period(void **state)
{
    static const char *const texts[] = {"", "alloc_space", "bytes", "space", "inner", "count"};
    static const struct {
        uint64_t unit, period, samples;
    } cases[] = {{2, 512, 7}, {2, 1, 0}, {5, 512, 0}, {2, 0, 0}};
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        _cleanup_(profile_freep) struct profile *p = NULL;
        _cleanup_buf_ struct buf b = {0};
        struct pprof_about about;
        put_pair(&b, 1, 1, 1, 2, 2);
        for (size_t j = 0; j < array_size(texts); j++)
            put_bytes(&b, 6, texts[j], strlen(texts[j]));
        put_pair(&b, 2, 1, 1, 2, 100);  /* less than a period still counts as one sample */
        put_pair(&b, 2, 1, 2, 2, 3500); /* six */
        put_pair(&b, 11, 1, 3, 2, cases[i].unit);
        put_number(&b, 12, cases[i].period);
        assert_int_equal(pprof_read(b.data, b.size, NULL, &p, &about), 0);
        assert_int_equal(about.samples, cases[i].samples);
        assert_int_equal(about.is_exact, cases[i].period == 1);
        assert_int_equal(fixture_weight(p), 3600);
    }
}

static void test_sample_type_is_selected(void **state)
{
    _cleanup_buf_ struct buf b = {0};
    struct profile *p = NULL;
    struct pprof_about about;
    (void)state;
    put_tables(&b, 0);
    put_sample(&b, (uint8_t[]){3}, 1, 4, 25, true);
    assert_int_equal(pprof_read(b.data, b.size, NULL, &p, &about), 0); /* the last type */
    assert_true(p->entries[0].value == 25 && p->entries[0].count == 4);
    profile_free(p);
    assert_int_equal(pprof_read(b.data, b.size, "samples", &p, &about), 0);
    assert_true(p->entries[0].value == 4 && p->entries[0].count == 4);
    profile_free(p);
    assert_int_equal(pprof_read(b.data, b.size, "heap", &p, &about), -ENOENT);
    assert_string_equal(about.why, "it has values of the types samples, cpu");
}

static void test_damaged_files_are_refused(void **state)
{
    _cleanup_buf_ struct buf b = {0}, negative = {0};
    struct profile *p = NULL;
    struct pprof_about about;
    (void)state;
    put_tables(&b, 3);
    put_sample(&b, (uint8_t[]){7, 3}, 2, 2, 50, true);
    for (size_t size = 0; size < b.size; size++)
        if (pprof_read(b.data, size, NULL, &p, &about) == 0)
            profile_free(p); /* it ended between two fields */
    assert_int_equal(pprof_read(b.data, b.size - 1, NULL, &p, &about), -EBADMSG);
    assert_int_equal(pprof_read("", 0, NULL, &p, &about), -EBADMSG);
    assert_int_equal(pprof_read("root:x:0:0", 10, NULL, &p, &about), -EBADMSG);
    put_tables(&negative, 3);
    put_sample(&negative, (uint8_t[]){3}, 1, 1, UINT64_MAX, false);
    assert_int_equal(pprof_read(negative.data, negative.size, NULL, &p, &about), -ERANGE);
}

static void unpack(const struct buf *packed, struct buf *to)
{
    char piece[4096];
    z_stream z = {.next_in = (unsigned char *)packed->data, .avail_in = (unsigned)packed->size};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    int r = Z_OK;
    while (r == Z_OK) {
        z.next_out = (unsigned char *)piece;
        z.avail_out = sizeof(piece);
        r = inflate(&z, Z_NO_FLUSH);
        buf_append(to, piece, sizeof(piece) - z.avail_out);
    }
    assert_int_equal(r, Z_STREAM_END);
    inflateEnd(&z);
}

static void test_own_export_round_trips(void **state)
{
    _cleanup_buf_ struct buf packed = {0}, plain = {0}, before = {0}, after = {0};
    _cleanup_(profile_freep) struct profile *p = NULL, *back = NULL;
    struct pprof_about about;
    (void)state;
    assert_int_equal(profile_new(0, &p), 0);
    for (uint64_t i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof(name), "function%d", (int)(i % 17));
        const struct frame frames[] = {
            {.function = name,
             .system_name = "",
             .file = "a.c",
             .line = (uint32_t)i % 5,
             .mapping = "/bin/a",
             .build_id = "ab"},
            {.kind = FRAME_KERNEL,
             .function = "do_work",
             .system_name = "",
             .file = "",
             .mapping = "[kernel.kallsyms]",
             .build_id = ""},
            {.function = "",
             .system_name = "",
             .file = "",
             .mapping = "/bin/b",
             .build_id = "cd",
             .address = 0x1000 + i % 3},
        };
        struct resource resource = resource_unknown;
        resource.command = i % 2 ? "odd" : "even";
        const struct sample s = {
            .value = 1000 + i, .resource = &resource, .thread_name = "", .frames = frames, .frame_count = 1 + i % 3};
        assert_int_equal(profile_add(p, &s), 0);
    }
    p->not_observed_ns = 12345 * UINT64_C(1000000);
    p->dropped = 7; /* another comment */
    assert_int_equal(exporter_pprof.write(p, &packed), 0);
    unpack(&packed, &plain);
    assert_int_equal(pprof_read(plain.data, plain.size, NULL, &back, &about), 0);
    assert_true(about.samples == 300 && back->not_observed_ns == p->not_observed_ns);
    assert_int_equal(exporter_folded.write(p, &before), 0);
    assert_int_equal(exporter_folded.write(back, &after), 0);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
}

/* Two samples; `event`: NULL for waits. */
static struct profile *event_round_trip(const char *event, const char *unit, uint64_t period, const char *type,
                                        struct pprof_about *about)
{
    _cleanup_(profile_freep) struct profile *p = NULL;
    _cleanup_buf_ struct buf packed = {0}, plain = {0};
    const struct frame frame = fixture_native("leaf");
    const struct resource resource = fixture_resource(17, "server");
    struct profile *back = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    if (event)
        assert_int_equal(fixture_set_event(p, event, unit), 0);
    else
        p->type = &sample_type_off_cpu;
    p->period = period;
    assert_int_equal(fixture_add(p, &resource, 17, "t", 8192, &frame, 1), 0);
    assert_int_equal(fixture_add(p, &resource, 17, "t", 4096, &frame, 1), 0);
    assert_int_equal(exporter_pprof.write(p, &packed), 0);
    unpack(&packed, &plain);
    assert_int_equal(pprof_read(plain.data, plain.size, type, &back, about), 0);
    return back;
}

static void test_events_round_trip(void **state)
{
    struct pprof_about about;
    _cleanup_(profile_freep) struct profile *back = event_round_trip("mmap", "bytes", 0, NULL, &about);
    (void)state;
    assert_string_equal(about.type, "mmap");
    assert_string_equal(about.unit, "bytes");
    assert_int_equal(about.samples, 2);
    assert_int_equal(fixture_weight(back), 12288);
}

/* Whether the values were sampled at random. */
static void test_sampling_mode_is_read(void **state)
{
    static const struct {
        const char *event, *unit;
        uint64_t period;
        const char *type;
        bool is_exact;
    } cases[] = {
        {"mmap", "bytes", 0, NULL, true},
        {"mmap", "bytes", 0, "samples", true},
        {"page-faults", "count", 1, NULL, true},
        {"page-faults", "count", 10, NULL, false},
        {"page-faults", "count", 10, "samples", false},
        {NULL, NULL, 0, NULL, false}, /* every wait is recorded, but its length is not under the program's control */
        {NULL, NULL, 1, NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        struct pprof_about about;
        profile_free(event_round_trip(cases[i].event, cases[i].unit, cases[i].period, cases[i].type, &about));
        assert_int_equal(about.is_exact, cases[i].is_exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_round_trip),       cmocka_unit_test(test_sampling_mode_is_read),
        cmocka_unit_test(test_every_encoding_is_read),  cmocka_unit_test(test_sample_count_from_the_period),
        cmocka_unit_test(test_sample_type_is_selected), cmocka_unit_test(test_damaged_files_are_refused),
        cmocka_unit_test(test_own_export_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
