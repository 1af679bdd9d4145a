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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_two_signals_share_a_name),
        cmocka_unit_test(test_each_kind_of_record_has_one_owner),
        cmocka_unit_test(test_records_of_unknown_kinds_and_sizes_are_rejected),
        cmocka_unit_test(test_settings_lie_within_their_struct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
