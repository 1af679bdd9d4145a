/* otlp_profiles.c, read back field by field: every packet is self-contained, indices refer to its own rows, and sums
 * over all packets equal the profile's. tests/e2e/test_otlp_profiles.py checks that the official messages parse to the
 * same. */
#include "export/otlp_dictionary.h"
#include "export/otlp_profiles.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"
#include "protobuf_fields.h"

struct seen {
    uint64_t packets, samples, profiles, largest; /* as reported to the sink */
    uint64_t entries, value, timestamps, links;   /* as written */
    uint64_t rows[8];                             /* of the current packet */
    uint64_t start_ns, end_ns, earliest_ns;       /* of the current profile; of all */
    uint64_t step_ns, begun_ns, times_ns;         /* as requested; the profile's beginning; the sum of all */
    uint64_t in_packet;                           /* profiles, so far */
    uint8_t id[12];                               /* common prefix of ids in the packet */
    uint64_t mapping, address;                    /* of the previous location */
};

static void read_packed(struct cursor c, uint64_t count)
{
    while (cursor_left(&c))
        assert_in_range(cursor_uleb128(&c), 1, count - 1);
    assert_false(c.failed);
}

static void read_sample(struct cursor c, struct seen *seen)
{
    uint64_t values = 0, timestamps = 0, stack = 0;
    for (struct protobuf_field f; next_field(&c, &f);) {
        stack = f.number == 1 ? f.value : stack;
        if (f.number == 2)
            read_packed(f.inside, seen->rows[OTLP_ATTRIBUTE]);
        if (f.number == 3) {
            assert_in_range(f.value, 1, seen->rows[OTLP_LINK] - 1);
            seen->links++;
        }
        for (; f.number == 4 && cursor_left(&f.inside); values++)
            seen->value += cursor_uleb128(&f.inside);
        for (; f.number == 5 && cursor_left(&f.inside); timestamps++) {
            const uint64_t time_ns = cursor_u64(&f.inside);
            assert_in_range(time_ns, seen->start_ns, seen->end_ns - 1);
            assert_true(time_ns % seen->step_ns == 0 || time_ns == seen->begun_ns);
            seen->times_ns += time_ns;
        }
    }
    assert_in_range(stack, 1, seen->rows[OTLP_STACK] - 1);
    assert_true(values > 0 && (timestamps == values || (timestamps == 0 && values == 1)));
    seen->entries++;
    seen->timestamps += timestamps;
}

/* The ids of one packet share a prefix that no other packet has; the suffix counts up. */
static void read_id(struct cursor c, struct seen *seen)
{
    const uint64_t number = seen->in_packet++;
    const uint8_t *id = c.data;
    assert_int_equal(c.size, 16);
    assert_true((memcmp(id, seen->id, sizeof(seen->id)) == 0) == (number > 0));
    memcpy(seen->id, id, sizeof(seen->id));
    assert_int_equal((uint64_t)id[12] << 24 | (uint64_t)id[13] << 16 | (uint64_t)id[14] << 8 | id[15], number);
}

static void read_profile(struct cursor c, struct seen *seen)
{
    struct cursor samples = c;
    bool has_id = false;
    for (struct protobuf_field f; next_field(&c, &f);) {
        seen->start_ns = f.number == 3 ? f.value : seen->start_ns;
        seen->end_ns = f.number == 4 ? seen->start_ns + f.value : seen->end_ns;
        if (f.number == 7)
            read_id(f.inside, seen);
        has_id |= f.number == 7;
    }
    assert_true(has_id);
    seen->earliest_ns = seen->start_ns < seen->earliest_ns ? seen->start_ns : seen->earliest_ns;
    for (struct protobuf_field f; next_field(&samples, &f);)
        if (f.number == 2)
            read_sample(f.inside, seen);
}

/* Rows refer to rows of other tables: field numbers of a message, by the table they refer to. */
static void read_row(uint32_t table, struct cursor c, struct seen *seen)
{
    uint64_t mapping = 0, address = 0;
    static const uint8_t refers[8][6] = {
        [OTLP_MAPPING] = {[4] = OTLP_STRING, [5] = OTLP_ATTRIBUTE},
        [OTLP_LOCATION] = {[1] = OTLP_MAPPING, [4] = OTLP_ATTRIBUTE},
        [OTLP_FUNCTION] = {[1] = OTLP_STRING, [2] = OTLP_STRING, [3] = OTLP_STRING},
        [OTLP_ATTRIBUTE] = {[1] = OTLP_STRING},
        [OTLP_STACK] = {[1] = OTLP_LOCATION},
    };
    for (struct protobuf_field f; next_field(&c, &f);) {
        assert_in_range(f.number, 1, 5);
        const uint8_t to = refers[table][f.number];
        if (to && f.inside.data)
            read_packed(f.inside, seen->rows[to]);
        else if (to)
            assert_in_range(f.value, 1, seen->rows[to] - 1);
        mapping = f.number == 1 ? f.value : mapping;
        address = f.number == 2 ? f.value : address;
    }
    if (table == OTLP_LOCATION) { /* by their addresses in each file */
        assert_true(mapping != seen->mapping || address >= seen->address);
        seen->mapping = mapping;
        seen->address = address;
    }
}

static void read_dictionary(struct cursor c, struct seen *seen)
{
    struct cursor again = c;
    memset(seen->rows, 0, sizeof(seen->rows));
    seen->in_packet = seen->mapping = seen->address = 0;
    for (struct protobuf_field f; next_field(&c, &f);) {
        if (seen->rows[f.number]++ == 0)
            assert_int_equal(f.inside.size, f.number == OTLP_LINK ? 28 : 0);
        else
            assert_int_not_equal(f.inside.size, 0);
    }
    for (uint32_t i = 1; i <= OTLP_TABLES; i++)
        assert_true(seen->rows[i] >= 1);
    for (struct protobuf_field f; next_field(&again, &f);)
        if (f.number != OTLP_STRING && f.number != OTLP_LINK)
            read_row(f.number, f.inside, seen);
}

static void read_packet(void *context, const struct otlp_profiles_packet *packet)
{
    struct seen *seen = context;
    uint64_t profiles = 0;
    for (int pass = 0; pass < 2; pass++) { /* the dictionary first */
        struct cursor c = cursor_make(packet->data, packet->size);
        for (struct protobuf_field f; next_field(&c, &f);) {
            assert_true(f.number == 1 || f.number == 2);
            if (f.number == 2 && pass == 0)
                read_dictionary(f.inside, seen);
            if (f.number == 2 || pass == 0)
                continue;
            for (struct protobuf_field scope; next_field(&f.inside, &scope);)
                for (struct protobuf_field profile; scope.number == 2 && next_field(&scope.inside, &profile);)
                    if (profile.number == 2) {
                        read_profile(profile.inside, seen);
                        profiles++;
                    }
        }
    }
    assert_int_equal(profiles, packet->profiles);
    seen->packets++;
    seen->samples += packet->samples;
    seen->profiles += packet->profiles;
    seen->largest = packet->size > seen->largest ? packet->size : seen->largest;
}

static struct seen write_in_steps(const struct profile *p, size_t max_bytes, uint64_t too_large, uint64_t step_ns)
{
    const struct otlp_profiles_options options = {
        .packet_max_bytes = max_bytes, .host_name = "node", .id_seed = 7, .time_step_ns = step_ns};
    struct seen seen = {.step_ns = step_ns ? step_ns : 1, .begun_ns = p->start_unix_ns, .earliest_ns = UINT64_MAX};
    uint64_t left_out = UINT64_MAX;
    assert_int_equal(otlp_profiles_write(p, &options, &(struct otlp_profiles_sink){&seen, read_packet}, &left_out), 0);
    assert_int_equal(left_out, too_large);
    assert_int_equal(seen.samples + too_large, fixture_count(p));
    assert_true(seen.largest <= max_bytes);
    return seen;
}

static struct seen write_all(const struct profile *p, size_t max_bytes, uint64_t too_large)
{
    return write_in_steps(p, max_bytes, too_large, 0);
}

static void test_typical_profile_reads_back(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fixture_typical(p);
    const struct seen seen = write_all(p, 1 << 20, 0);
    assert_int_equal(seen.packets, 1);
    assert_int_equal(seen.profiles, p->resource_count);
    assert_int_equal(seen.entries, p->entry_count);
    assert_int_equal(seen.value, fixture_weight(p));
    assert_int_equal(seen.timestamps, 0);
    assert_int_equal(seen.start_ns, p->start_unix_ns);
    assert_int_equal(seen.end_ns, p->start_unix_ns + p->duration_ns);
    assert_int_equal(seen.rows[OTLP_STACK], p->stack_count + 1);
    assert_int_equal(seen.rows[OTLP_LOCATION], p->frame_count + 1);
}

static void test_empty_profile(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    assert_int_equal(write_all(p, 1 << 20, 0).packets, 0);
}

static void test_hostile_names_are_valid_utf8(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fixture_hostile(p);
    const struct seen seen = write_all(p, 1 << 20, 0);
    assert_int_equal(seen.value, fixture_weight(p));
    /* One of its names alone exceeds that. */
    assert_int_equal(write_all(p, 1 << 14, 1).entries, p->entry_count - 1);
}

enum { SAMPLES = 3000 };

static void fill(struct profile *p)
{
    p->start_unix_ns = 1785585600000000000u + 5000000000u; /* some come late */
    p->duration_ns = 10000000000u;                         /* and some after its end, as clocks go */
    for (uint32_t i = 0; i < SAMPLES; i++) {
        char name[24];
        snprintf(name, sizeof(name), "function_%u", i % 1000);
        struct resource resource = fixture_resource(i % 5, "c");
        const struct frame frames[] = {fixture_native(name), fixture_native("main")};
        assert_int_equal(fixture_add_moment(p, &resource, i % 3, 10 + i, frames, 2, i), 0);
    }
}

/* Rounded down to a multiple of the step, unless that is before the profile's beginning: then to the beginning. Late
 * timestamps stay before it. */
static void test_timestamps_are_rounded_to_steps(void **state)
{
    (void)state;
    const uint64_t steps_ns[] = {0, 1 << 16, 1 << 20, 1 << 24, 1 << 30};
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fill(p);
    p->start_unix_ns -= 3000000000u; /* 2 ns before a moment */
    for (size_t i = 0; i < array_size(steps_ns); i++) {
        const uint64_t step_ns = steps_ns[i] ? steps_ns[i] : 1;
        uint64_t expected_ns = 0, earliest_ns = p->start_unix_ns, at_start = 0;
        for (uint32_t k = 0; k < p->moment_count; k++) {
            const uint64_t ns = p->moments[k].unix_ns;
            uint64_t told_ns = ns / step_ns * step_ns;
            told_ns = ns >= p->start_unix_ns && told_ns < p->start_unix_ns ? p->start_unix_ns : told_ns;
            at_start += told_ns == p->start_unix_ns;
            earliest_ns = told_ns < earliest_ns ? told_ns : earliest_ns;
            expected_ns += told_ns;
        }
        const struct seen seen = write_in_steps(p, 1 << 20, 0, steps_ns[i]);
        assert_int_equal(seen.times_ns, expected_ns);
        assert_int_equal(seen.earliest_ns, earliest_ns);
        assert_true(earliest_ns < p->start_unix_ns && (at_start > 0) == (i > 0));
    }
}

/* At any packet size, each packet is complete, and together they contain the same. */
static void test_split_packets_are_complete(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fill(p);
    assert_int_equal(p->moment_count, SAMPLES);
    uint64_t packets = 0;
    for (size_t max_bytes = 1 << 20; max_bytes >= 1024; max_bytes /= 4) {
        const struct seen seen = write_all(p, max_bytes, 0);
        assert_true(seen.packets >= packets);
        packets = seen.packets;
        assert_true(seen.profiles >= 5 && seen.profiles < 5 + packets);
        assert_int_equal(seen.entries, p->entry_count);
        assert_int_equal(seen.value, fixture_weight(p));
        assert_int_equal(seen.timestamps, SAMPLES);
    }
    assert_true(packets > 100);
}

/* One thread in one loop, sampled at the maximum rate and length: its timestamps do not fit in one packet. */
static void test_entry_split_over_packets(void **state)
{
    (void)state;
    enum { HOT = 60000 };
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fill(p);
    const uint32_t others = p->entry_count;
    const struct resource resource = fixture_resource(3, "c");
    const struct frame frames[] = {fixture_native("loop"), fixture_native("main")};
    for (uint32_t i = 0; i < HOT; i++)
        assert_int_equal(fixture_add_moment(p, &resource, 77, 1000000, frames, 2, 3 * i), 0);
    assert_int_equal(p->entry_count, others + 1);
    const size_t sizes[] = {512 << 10, 64 << 10, 1 << 10};
    for (size_t i = 0; i < array_size(sizes); i++) {
        const struct seen seen = write_all(p, sizes[i], 0);
        assert_int_equal(seen.value, fixture_weight(p));
        assert_int_equal(seen.timestamps, SAMPLES + HOT);
        assert_true(seen.entries > p->entry_count && seen.entries - others <= seen.packets);
    }
    const struct seen seen = write_all(p, 512 << 10, 0);
    assert_true(seen.packets <= 4);
}

/* The name alone exceeds the packet: this is detected once, not sixty thousand times. */
static void test_entry_too_large_for_any_packet(void **state)
{
    (void)state;
    enum { HOT = 60000 };
    _cleanup_(profile_freep) struct profile *p = NULL;
    assert_int_equal(profile_new(0, &p), 0);
    fill(p);
    static char name[2000];
    memset(name, 'n', sizeof(name) - 1);
    const struct resource resource = fixture_resource(3, "c");
    const struct frame frames[] = {fixture_native(name), fixture_native("main")};
    for (uint32_t i = 0; i < HOT; i++)
        assert_int_equal(fixture_add_moment(p, &resource, 77, 1000000, frames, 2, 3 * i), 0);
    assert_int_equal(write_all(p, 1 << 10, HOT).timestamps, SAMPLES);
}

static void test_dictionary_rows_are_unique(void **state)
{
    (void)state;
    struct otlp_dictionary d = {0};
    assert_int_equal(otlp_dictionary_reset(&d), 0);
    _cleanup_buf_ struct buf row = {0}, out = {0};
    assert_int_equal(otlp_dictionary_put(&d, OTLP_STACK, &row), 0);
    assert_int_equal(otlp_dictionary_put_text(&d, ""), 0);
    assert_int_equal(otlp_dictionary_put_text(&d, "a"), 1);
    assert_int_equal(otlp_dictionary_put_text(&d, "a\xff"), 2);
    assert_int_equal(otlp_dictionary_put_text(&d, "a\xef\xbf\xbd"), 2); /* equal to the other one after replacement */
    assert_int_equal(otlp_dictionary_put_text(&d, "a"), 1);
    buf_append(&row, "a\0b", 3);
    assert_int_equal(otlp_dictionary_put(&d, OTLP_STACK, &row), 1);
    buf_append(&row, "a\0c", 3);
    assert_int_equal(otlp_dictionary_put(&d, OTLP_STACK, &row), 2);
    buf_append(&row, "a\0b", 3);
    assert_int_equal(otlp_dictionary_put(&d, OTLP_STACK, &row), 1);
    otlp_dictionary_write(&d, &out);
    struct cursor c = cursor_make(out.data, out.size);
    uint64_t rows[8] = {0};
    for (struct protobuf_field f; next_field(&c, &f);)
        rows[f.number]++;
    assert_int_equal(rows[OTLP_STRING], 3);
    assert_int_equal(rows[OTLP_STACK], 3);
    assert_int_equal(rows[OTLP_LINK], 1);
    otlp_dictionary_clear(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_typical_profile_reads_back),   cmocka_unit_test(test_empty_profile),
        cmocka_unit_test(test_hostile_names_are_valid_utf8), cmocka_unit_test(test_split_packets_are_complete),
        cmocka_unit_test(test_entry_split_over_packets),     cmocka_unit_test(test_entry_too_large_for_any_packet),
        cmocka_unit_test(test_dictionary_rows_are_unique),   cmocka_unit_test(test_timestamps_are_rounded_to_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
