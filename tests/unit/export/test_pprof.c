/* pprof.c, read back field by field: sums, valid references, no table with a duplicate row. tests/e2e/test_formats.py
 * checks that other readers agree. */
#include "export/export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "../fixture.h"
#include "protobuf_fields.h"

#define ROWS_MAX 5000

/* The varint `field` of a message; 0 when absent. */
static uint64_t number_of(struct cursor c, uint32_t field)
{
    uint64_t value = 0;
    for (struct protobuf_field f; next_field(&c, &f);)
        if (f.number == field)
            value = f.value;
    return value;
}

struct decoded {
    uint64_t counts, value, samples, frames, labels;
    uint64_t locations[ROWS_MAX], functions[ROWS_MAX]; /* number of rows with this id */
    uint64_t mappings[64];
    uint64_t location_count, function_count, mapping_count, text_count;
    uint64_t system_names; /* functions that have one */
    bool has_default;
    char first_mapping[64];
};

static void decode_sample(struct cursor c, struct decoded *d)
{
    d->samples++;
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (f.number == 1)
            for (; cursor_left(&f.inside); d->frames++)
                assert_in_range(cursor_uleb128(&f.inside), 1, d->location_count);
        if (f.number == 2) {
            d->counts += cursor_uleb128(&f.inside);
            d->value += cursor_uleb128(&f.inside);
            assert_int_equal(cursor_left(&f.inside), 0);
        }
        if (f.number == 3) {
            d->labels++;
            assert_in_range(number_of(f.inside, 1), 1, d->text_count - 1);
            assert_in_range(number_of(f.inside, 2), 0, d->text_count - 1);
            assert_true(number_of(f.inside, 2) || number_of(f.inside, 3));
        }
    }
}

static void count_tables(struct cursor c, struct decoded *d)
{
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (f.number == 3)
            d->mappings[number_of(f.inside, 1)]++, d->mapping_count++;
        if (f.number == 4)
            d->locations[number_of(f.inside, 1)]++, d->location_count++;
        if (f.number == 5)
            d->functions[number_of(f.inside, 1)]++, d->function_count++;
        if (f.number == 6 && d->text_count++ == 0)
            assert_int_equal(f.inside.size, 0);
    }
    for (uint64_t i = 1; i <= d->location_count; i++)
        assert_int_equal(d->locations[i], 1); /* ids are 1 .. count, each once */
    for (uint64_t i = 1; i <= d->function_count; i++)
        assert_int_equal(d->functions[i], 1);
    for (uint64_t i = 1; i <= d->mapping_count; i++)
        assert_int_equal(d->mappings[i], 1);
}

static void decode_location(struct cursor c, const struct decoded *d)
{
    assert_in_range(number_of(c, 2), 0, d->mapping_count);
    for (struct protobuf_field f; next_field(&c, &f);)
        if (f.number == 4)
            assert_in_range(number_of(f.inside, 1), 1, d->function_count);
}

/* The file of the first mapping. */
static void find_first_mapping(struct cursor c, struct decoded *d)
{
    struct cursor again = c;
    uint64_t text = 0, number = 0;
    struct protobuf_field f;
    while (next_field(&c, &f) && f.number != 3)
        ;
    if (f.number == 3) {
        assert_int_equal(number_of(f.inside, 1), 1);
        number = number_of(f.inside, 5);
    }
    while (next_field(&again, &f))
        if (f.number == 6 && text++ == number)
            snprintf(d->first_mapping, sizeof(d->first_mapping), "%.*s", (int)f.inside.size,
                     (const char *)f.inside.data);
}

static void decode(struct cursor c, struct decoded *d)
{
    *d = (struct decoded){0};
    count_tables(c, d);
    find_first_mapping(c, d);
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (f.number == 2)
            decode_sample(f.inside, d);
        if (f.number == 4)
            decode_location(f.inside, d);
        if (f.number == 5) {
            assert_in_range(number_of(f.inside, 2), 1, d->text_count - 1);
            assert_in_range(number_of(f.inside, 3), 0, d->text_count - 1);
            assert_in_range(number_of(f.inside, 4), 0, d->text_count - 1);
            d->system_names += number_of(f.inside, 3) != 0;
        }
        if (f.number == 14)
            d->has_default = f.value > 0 && f.value < d->text_count;
    }
}

static void write_and_decode(const struct profile *p, struct decoded *d)
{
    static uint8_t plain[16 << 20];
    _cleanup_buf_ struct buf out = {0};
    assert_int_equal(exporter_pprof.write(p, &out), 0);
    z_stream z = {.next_in = (uint8_t *)out.data, .avail_in = out.size, .next_out = plain, .avail_out = sizeof(plain)};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    size_t size = z.total_out;
    inflateEnd(&z);
    decode(cursor_make(plain, size), d);
}

static void expect_sums(const struct profile *p)
{
    static struct decoded d;
    write_and_decode(p, &d);
    assert_int_equal(d.counts, fixture_count(p));
    assert_int_equal(d.value, fixture_weight(p));
    assert_int_equal(d.samples, p->entry_count);
    assert_int_equal(d.location_count, p->frame_count);
    assert_true(d.has_default);
}

static struct profile *new_profile(void)
{
    struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    return p;
}

static void test_sums_and_references_are_valid(void **state)
{
    (void)state;
    void (*const fills[])(struct profile *p) = {fixture_typical, fixture_hostile};
    for (size_t i = 0; i < array_size(fills); i++) {
        _cleanup_(profile_freep) struct profile *p = new_profile();
        fills[i](p);
        expect_sums(p);
    }
    _cleanup_(profile_freep) struct profile *empty = new_profile(), *one = new_profile(), *deep = new_profile();
    expect_sums(empty);
    fixture_deep(one, 1);
    expect_sums(one);
    fixture_deep(deep, 1000);
    expect_sums(deep);
}

static void test_functions_and_mappings_are_shared(void **state)
{
    (void)state;
    static struct decoded d;
    _cleanup_(profile_freep) struct profile *p = new_profile();
    fixture_typical(p);
    write_and_decode(p, &d);
    assert_int_equal(d.function_count, p->frame_count - 1); /* one function at two addresses */
    assert_int_equal(d.mapping_count, 6);                   /* server, libc, libcuda, kernel, module, bpf */
    assert_int_equal(d.frames, 4 * 3 + 2 + 3 + 2 + 1);      /* the last: of the sample without a stack */
}

static void test_functions_differ_by_system_name(void **state)
{
    (void)state;
    static struct decoded d;
    _cleanup_(profile_freep) struct profile *p = new_profile();
    struct resource resource = fixture_resource(1, "c");
    struct frame frames[] = {fixture_native("max"), fixture_native("max"), fixture_native("main")};
    frames[0].system_name = "_Z3maxii";
    frames[1].system_name = "_Z3maxdd"; /* at the same address of another build, say */
    fixture_add(p, &resource, 1, "t", 1, frames, 3);
    assert_int_equal(p->frame_count, 3);
    write_and_decode(p, &d);
    assert_int_equal(d.function_count, 3);
    assert_int_equal(d.system_names, 2);
    _cleanup_(profile_freep) struct profile *folded = NULL;
    assert_int_equal(profile_fold(p, &folded), 0);
    assert_int_equal(folded->frame_count, 2); /* readers distinguish them by name */
}

/* The program of the busiest process comes first, whichever frame was seen first. */
static void test_main_mapping_is_first(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile();
    struct resource idle = fixture_resource(1, "idle"), busy = fixture_resource(2, "busy"),
                    other = fixture_resource(3, "other");
    idle.executable_path = "/bin/idle";
    busy.executable_path = "/bin/busy";
    other.executable_path = "/bin/other";
    struct frame anonymous = fixture_frame(FRAME_NATIVE, "", "[anon]", 1),
                 libc = fixture_frame(FRAME_NATIVE, "read", "/lib/libc.so", 2);
    struct frame frames[] = {fixture_frame(FRAME_NATIVE, "i", "/bin/idle", 3),
                             fixture_frame(FRAME_NATIVE, "b", "/bin/busy", 4)};
    fixture_add(p, &idle, 1, "t", 1, (struct frame[]){anonymous, libc, frames[0]}, 3);
    fixture_add(p, &busy, 2, "t", 5, (struct frame[]){libc, frames[1]}, 2);
    fixture_add(p, &other, 3, "t", 100, &libc, 1); /* none of its own frames was seen */
    static struct decoded d;
    write_and_decode(p, &d);
    assert_int_equal(d.mapping_count, 4);
    assert_string_equal(d.first_mapping, "/bin/busy");
}

static void test_large_profile_of_random_stacks(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile();
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        struct frame frames[8];
        char names[8][24];
        struct resource resource = fixture_resource(i % 7, "c");
        for (int j = 0; j < 8; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            snprintf(names[j], sizeof(names[j]), "f%u", (unsigned)(seed >> 33) % 200);
            frames[j] = fixture_native(names[j]);
        }
        assert_int_equal(fixture_add(p, &resource, i % 3, "t", i, frames, i % 9), 0);
    }
    expect_sums(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_and_references_are_valid),
        cmocka_unit_test(test_functions_and_mappings_are_shared),
        cmocka_unit_test(test_functions_differ_by_system_name),
        cmocka_unit_test(test_main_mapping_is_first),
        cmocka_unit_test(test_large_profile_of_random_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
