/* Label sets are part of a sample's identity; they use at most their share of a profile. */
#include "../fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct profile *new_profile(size_t max_bytes)
{
    struct profile *p = NULL;
    assert_int_equal(profile_new(max_bytes, &p), 0);
    return p;
}

/* Different texts, or more labels. Merging keeps the distinction, and folding for display drops it. */
static void test_samples_differ_by_labels(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0), *to = new_profile(0), *folded = NULL;
    struct resource resource = fixture_resource(1, "a");
    const struct frame frames[] = {fixture_native("work")};
    const struct sample_label labels[] = {{"route", "/a"}, {"tenant", "one"}, {"route", "/b"}};
    const struct {
        size_t first, count;
    } sets[] = {{0, 0}, {0, 1}, {0, 2}, {1, 1}, {2, 1}, {0, 2}, {0, 0}};
    for (size_t i = 0; i < array_size(sets); i++) {
        const struct sample s = {.value = 1,
                                 .resource = &resource,
                                 .thread_name = "t",
                                 .frames = frames,
                                 .frame_count = 1,
                                 .labels = labels + sets[i].first,
                                 .label_count = sets[i].count};
        assert_int_equal(profile_add(p, &s), 0);
    }
    assert_int_equal(p->labels_count, 4);
    assert_int_equal(p->entry_count, 5);
    assert_int_equal(fixture_add(to, &resource, 0, "other texts", 1, frames, 1), 0);
    assert_int_equal(profile_merge(to, p, NULL), 0);
    assert_int_equal(profile_merge(to, p, NULL), 0);
    assert_int_equal(to->labels_count, 4);
    assert_int_equal(to->entry_count, 6);
    for (uint32_t i = 0; i < to->entry_count; i++) {
        const struct profile_entry *e = &to->entries[i];
        if (!e->labels || to->labels[e->labels - 1].count != 4)
            continue;
        const uint32_t *texts = to->label_texts + to->labels[e->labels - 1].first;
        assert_string_equal(profile_text(to, texts[0]), "route");
        assert_string_equal(profile_text(to, texts[1]), "/a");
        assert_string_equal(profile_text(to, texts[3]), "one");
        assert_int_equal(e->count, 4);
    }
    assert_int_equal(profile_fold(p, &folded), 0);
    assert_int_equal(folded->entry_count, 1);
    assert_int_equal(folded->labels_count, 0);
    assert_int_equal(folded->entries[0].count, 7);
}

/* Each sample has a label of its own: all are kept, most without it, links have their own share, and memory stays
 * within the bound. */
static void test_labels_are_bounded_separately(void **state)
{
    (void)state;
    const size_t max_bytes = 256 << 10, samples = 100000;
    _cleanup_(profile_freep) struct profile *p = new_profile(max_bytes), *to = new_profile(max_bytes);
    struct resource resource = fixture_resource(1, "a");
    const struct frame frames[] = {fixture_native("work")};
    uint64_t unlabelled = 0, labelled = 0, count = 0;
    const size_t empty_bytes = profile_bytes(p);
    for (size_t i = 0; i < samples; i++) {
        char value[32];
        snprintf(value, sizeof(value), "request %zu", i);
        const struct sample_label label = {"request", value};
        const struct sample s = {.value = 1,
                                 .resource = &resource,
                                 .thread_name = "t",
                                 .frames = frames,
                                 .frame_count = 1,
                                 .labels = &label,
                                 .label_count = 1,
                                 .link = {0, i + 1 == samples, 1}};
        int r = profile_add(p, &s);
        assert_true(r == 0 || r == PROFILE_UNLABELLED);
        unlabelled += r == PROFILE_UNLABELLED;
    }
    assert_true(p->labels_count > 50 && p->labels_count < 1000);
    assert_int_equal(p->dropped, 0);
    assert_int_equal(p->unlinked, 0);
    assert_int_equal(p->unlabelled, unlabelled);
    assert_true(profile_bytes(p) - empty_bytes <= max_bytes / 2);
    for (uint32_t i = 0; i < p->entry_count; i++)
        labelled += p->entries[i].labels ? p->entries[i].count : 0;
    assert_int_equal(labelled + unlabelled, samples);
    assert_int_equal(profile_merge(to, p, NULL), 0);
    assert_int_equal(to->dropped, 0);
    for (uint32_t i = 0; i < to->entry_count; i++)
        count += to->entries[i].count;
    assert_int_equal(count, samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_differ_by_labels),
        cmocka_unit_test(test_labels_are_bounded_separately),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
