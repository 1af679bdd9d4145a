/* frame.c, resource.c, loss.c, attach.c: names and texts. */
#include "model/attach.h"
#include "model/frame.h"
#include "model/loss.h"
#include "model/resource.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"

static void expect_text(enum frame_kind kind, const char *function, const char *mapping, uint64_t address,
                        const char *expected)
{
    char out[FRAME_TEXT_BYTES];
    assert_string_equal(frame_text(kind, function, mapping, address, out), expected);
}

static void test_frame_texts(void **state)
{
    (void)state;
    expect_text(FRAME_NATIVE, "main", "/bin/a", 1, "main");
    expect_text(FRAME_NATIVE, "", "/usr/lib/libc.so.6", 0x1234, "libc.so.6+0x1234");
    expect_text(FRAME_NATIVE, "", "libc.so.6", 0, "libc.so.6+0x0");
    expect_text(FRAME_NATIVE, "", "", 0xabc, "[unknown]+0xabc");
    expect_text(FRAME_NATIVE, "", "/odd/", 1, "/odd/+0x1");
    expect_text(FRAME_KERNEL, "", "[kernel.kallsyms]", UINT64_MAX, "[kernel.kallsyms]+0xffffffffffffffff");
    expect_text(FRAME_TRUNCATED, "", "", 0, "[truncated]");
    expect_text(FRAME_TRUNCATED, "no rows", "", 0, "[truncated: no rows]");
    expect_text(FRAME_TRUNCATED, "[truncated: no rows]", "", 0, "[truncated: no rows]");
}

static void test_long_texts_keep_their_end(void **state)
{
    (void)state;
    char name[1000], out[FRAME_TEXT_BYTES];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    const char *text = frame_text(FRAME_NATIVE, "", name, UINT64_MAX, out);
    assert_string_equal(text + strlen(text) - 19, "+0xffffffffffffffff");
    text = frame_text(FRAME_TRUNCATED, name, "", 0, out);
    assert_string_equal(text + strlen(text) - 2, "x]");
    assert_ptr_equal(frame_text(FRAME_NATIVE, name, "", 0, out), name); /* a function's own name is never cut */
}

static void test_names_of_kinds_and_losses(void **state)
{
    (void)state;
    for (int i = 0; i < FRAME_KIND_COUNT; i++)
        assert_true(frame_kind_name(i)[0]);
    assert_string_equal(frame_kind_name(FRAME_TRUNCATED), "truncated");
    for (int i = 0; i < LOSS_COUNT; i++) {
        assert_true(loss_help(i)[0]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(loss_name(i), loss_name(j));
    }
    assert_string_equal(loss_name(LOSS_RING_FULL), "ring_full");
}

static void test_attributes_that_apply(void **state)
{
    (void)state;
    struct resource resource = fixture_resource(1, "");
    struct resource_attribute out[RESOURCE_ATTRIBUTES_MAX];
    assert_int_equal(resource_attributes(&resource, out), 0);
    resource.container_id = "abc";
    resource.service_name = "shop";
    assert_int_equal(resource_attributes(&resource, out), 2);
    assert_string_equal(out[0].key, "service.name");
    assert_string_equal(out[1].key, "container.id");
    assert_string_equal(out[1].value, "abc");
    const struct resource full = {1, 1, "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a"};
    assert_int_equal(resource_attributes(&full, out), 11);
}

/* Pod attributes come from the node, the others from the process. */
static void test_pod_and_process_attributes_are_merged(void **state)
{
    (void)state;
    static const char *const wanted[] = {"a", "1", "k8s.pod.name", "web", "b", "2", "c", "3"};
    const struct resource resource = {.pod = "a\t1\nk8s.pod.name\tweb\n",
                                      .attributes = "b\t2\nk8s.pod.name\tmine\nc\t\t3\na\tx\n"};
    struct resource_position at = {0};
    struct resource_other other;
    for (size_t i = 0; i < array_size(wanted); i += 2) {
        assert_true(resource_next_of_both(&resource, &at, &other));
        assert_string_equal(other.key, wanted[i]);
        assert_string_equal(other.text, wanted[i + 1]);
    }
    assert_false(resource_next_of_both(&resource, &at, &other));
    assert_false(resource_next_of_both(&(struct resource){0}, &(struct resource_position){0}, &other));
}

static void test_attach_reports_are_bounded(void **state)
{
    (void)state;
    struct attach_report report = {0};
    for (int i = 0; i < ATTACH_ENTRIES_MAX + 5; i++)
        assert_non_null(
            attach_report_add(&report, "a probe whose name is much longer than there is room for in an entry"));
    assert_int_equal(report.count, ATTACH_ENTRIES_MAX);
    struct attach_entry *entry = attach_report_add(&report, "p");
    for (int i = 0; i < 100; i++)
        attach_entry_refused(entry, "fentry", -EPERM);
    assert_memory_equal(entry->fallback_reason, "fentry: Operation not permitted; fentry: ", 41);
    assert_true(strlen(entry->fallback_reason) < sizeof(entry->fallback_reason));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_texts),
        cmocka_unit_test(test_long_texts_keep_their_end),
        cmocka_unit_test(test_names_of_kinds_and_losses),
        cmocka_unit_test(test_attributes_that_apply),
        cmocka_unit_test(test_pod_and_process_attributes_are_merged),
        cmocka_unit_test(test_attach_reports_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
