/* The table of signals: names, kinds of records, keys and defaults fit together. */
#include "signals/signals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_no_two_signals_share_a_name(void **state)
{
    (void)state;
    for (size_t i = 0; all_signals[i]; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(all_signals[i]->name, all_signals[j]->name);
}

static void test_each_kind_of_record_has_one_owner(void **state)
{
    static unsigned char seen[1 << 16];
    size_t signal;
    (void)state;
    for (size_t i = 0; all_signals[i]; i++)
        for (const struct record_type *type = all_signals[i]->records; type && type->kind; type++) {
            assert_int_equal(seen[type->kind]++, 0);
            assert_non_null(type->is_valid);
            assert_non_null(type->take);
            assert_ptr_equal(signals_record_type(type->kind, &signal), type);
            assert_int_equal(signal, i);
        }
    assert_null(signals_record_type(65535, &signal));
}

static void test_records_of_unknown_kinds_and_sizes_are_rejected(void **state)
{
    const struct record_header unknown = {.size_bytes = sizeof(unknown), .kind = 65535},
                               small = {.size_bytes = sizeof(small) - 8}, uneven = {.size_bytes = sizeof(uneven) + 4};
    (void)state;
    assert_false(signals_check_record(&unknown));
    assert_false(signals_check_record(&small));
    assert_false(signals_check_record(&uneven));
}

static void test_settings_lie_within_their_struct(void **state)
{
    (void)state;
    for (size_t i = 0; all_signals[i]; i++) {
        const struct signal *s = all_signals[i];
        assert_true(s->settings_bytes <= SIGNAL_SETTINGS_MAX_BYTES);
        assert_true((s->settings_bytes > 0) == (s->defaults != NULL) && !s->settings == !s->defaults);
        for (const struct setting *k = s->settings; k && k->key; k++) {
            assert_true(k->offset + k->size <= s->settings_bytes);
            assert_non_null(strchr(k->key, '.'));
            assert_int_equal(strcspn(k->key, "."), strcspn(s->settings->key, ".")); /* one section */
        }
    }
}

static void check_levels(const struct source_level *levels, unsigned *seen)
{
    assert_true(!levels || levels->from == SOURCE_DETAIL_FULL);
    for (const struct source_level *l = levels; l && l->what; l++) {
        assert_true(l == levels || l->from > l[-1].from);
        *seen |= 1u << l->from;
    }
}

/* Each level of detail reduces something, and a request's count and duration are never shed. */
static void test_levels_of_detail_are_stated(void **state)
{
    unsigned seen = 0;
    (void)state;
    for (size_t i = 0; all_signals[i]; i++) {
        check_levels(all_signals[i]->levels, &seen);
        check_levels(all_signals[i]->source ? all_signals[i]->source->levels : NULL, &seen);
        assert_true(!all_signals[i]->shed == !all_signals[i]->levels);
        if (strcmp(all_signals[i]->name, "request") == 0)
            assert_null(all_signals[i]->source->shed);
    }
    assert_int_equal(seen, (1u << (SOURCE_DETAIL_LEAST + 1)) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_two_signals_share_a_name),
        cmocka_unit_test(test_each_kind_of_record_has_one_owner),
        cmocka_unit_test(test_records_of_unknown_kinds_and_sizes_are_rejected),
        cmocka_unit_test(test_settings_lie_within_their_struct),
        cmocka_unit_test(test_levels_of_detail_are_stated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
