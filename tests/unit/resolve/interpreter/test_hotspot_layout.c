/* HotSpot's description of its structures: of 11, 17 and 25, not filled in yet, and inconsistent tables. */
#include "../hotspot_image.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct hotspot_memory made;

static int read_made(struct hotspot_layout *ret)
{
    return hotspot_layout_read(&made.image, ret);
}

static void test_layout_of_17(void **state)
{
    struct hotspot_layout layout;
    (void)state;
    image_17(&made);
    assert_int_equal(read_made(&layout), 0);
    const struct hotspot_layout expected = {
        .heaps = 0xa000,
        .low_bound = 8,
        .high_bound = 16,
        .interpreter = 24,
        .list_items = 8,
        .heap_low = 8 + 16,
        .heap_segments = 120 + 16,
        .heap_shift = 256,
        .block_used = 8,
        .block_bytes = 16,
        .blob_bytes = 12,
        .blob_complete = 20,
        .blob_frame = 28,
        .blob_code = 32,
        .blob_name = 96,
        .blob_method = 112,
        .queue_start = 8,
        .queue_bytes = 20,
        .method_const = 8,
        .const_pool = 8,
        .const_code_bytes = 40,
        .const_name = 42,
        .const_signature = 44,
        .pool_bytes = 64,
        .pool_holder = 24,
        .source_file = 60,
        .class_name = 24,
        .symbol_length = 4,
        .symbol_body = 6,
        .flags = HOTSPOT_LINES | HOTSPOT_SCOPES,
        .const_bytes = 56,
        .const_words = 24,
        .const_flags = 28,
        .pcs_from = 268,
        .pcs_to = 272,
        .scopes = 120,
        .metadata = 260,
    };
    assert_memory_equal(&layout, &expected, sizeof(expected));
}

static void test_layouts_of_11_and_25(void **state)
{
    struct hotspot_layout layout;
    (void)state;
    image_25(&made);
    assert_int_equal(read_made(&layout), 0);
    assert_int_equal(layout.flags, (uint8_t)(HOTSPOT_KINDS | HOTSPOT_CODE_OFFSET | HOTSPOT_SHORT_COMPLETE |
                                             HOTSPOT_LINES | HOTSPOT_SCOPES | HOTSPOT_APART | HOTSPOT_NUMBERS_BY_1));
    assert_int_equal(layout.pcs_to, 200);
    assert_int_equal(layout.scopes, 96);
    assert_int_equal(layout.metadata, 16);
    assert_int_equal(layout.relocations, 28);
    assert_int_equal(layout.kind_nmethod, 1);
    assert_int_equal(layout.blob_kind, 50);
    assert_int_equal(layout.blob_method, 112);
    image_common(&made); /* 11 */
    image_field(&made, "GenericGrowableArray", "_len", "int", false, 4);
    image_field(&made, "CodeBlob", "_frame_complete_offset", "int", false, 20);
    image_field(&made, "CodeBlob", "_code_begin", "address", false, 32);
    image_field(&made, "CompiledMethod", "_method", "Method*", false, 112);
    image_field(&made, "InstanceKlass", "_source_file_name_index", "u2", false, 298);
    assert_int_equal(read_made(&layout), 0);
    assert_int_equal(layout.flags, HOTSPOT_SOURCE_IN_CLASS);
    assert_int_equal(layout.list_count, 4);
    assert_int_equal(layout.source_file, 298);
}

/* Java 23 and 24: a part of 25's fields, and metadata in another place. */
static void test_unknown_compiled_code_has_no_lines(void **state)
{
    struct hotspot_layout layout;
    (void)state;
    image_17(&made);
    image_set(&made, VERSION_AT, 20);
    assert_int_equal(read_made(&layout), 0);
    assert_int_equal(layout.flags, (uint8_t)(HOTSPOT_LINES | HOTSPOT_SCOPES | HOTSPOT_NUMBERS_BY_1));
    image_17(&made);
    image_int(&made, "ConstMethod::_has_linenumber_table", 4); /* a bit that BPF does not test */
    assert_int_equal(read_made(&layout), 0);
    assert_int_equal(layout.flags, 0);
    image_common(&made);
    image_field(&made, "GrowableArrayBase", "_len", "int", false, 0);
    image_field(&made, "CodeBlob", "_frame_complete_offset", "int16_t", false, 20);
    image_field(&made, "CodeBlob", "_code_offset", "int", false, 32);
    image_field(&made, "nmethod", "_method", "Method*", false, 112);
    image_field(&made, "ConstantPool", "_source_file_name_index", "u2", false, 60);
    image_field(&made, "ConstMethod", "_flags._flags", "u4", false, 28);
    image_field(&made, "nmethod", "_scopes_data_offset", "int", false, 200);
    image_field(&made, "nmethod", "_immutable_data", "address", false, 96);
    image_field(&made, "nmethod", "_metadata_offset", "u2", false, 160);
    image_int(&made, "ConstMethodFlags::_misc_has_linenumber_table", 1);
    image_set(&made, VERSION_AT, 24);
    assert_int_equal(read_made(&layout), 0);
    assert_int_equal(layout.flags,
                     (uint8_t)(HOTSPOT_CODE_OFFSET | HOTSPOT_SHORT_COMPLETE | HOTSPOT_LINES | HOTSPOT_NUMBERS_BY_1));
}

/* Since 17 the offsets are filled in while the library is loaded. */
static void test_unfilled_tables_are_retried(void **state)
{
    struct hotspot_layout layout;
    (void)state;
    image_17(&made);
    for (size_t i = 0; i < made.structs; i++)
        image_set(&made, STRUCTS_AT + i * STRUCT_STRIDE + 32, 0);
    assert_int_equal(read_made(&layout), -EAGAIN);
    image_17(&made);
    image_set(&made, 8 * HOTSPOT_STRUCT_STRIDE, 0);
    assert_int_equal(read_made(&layout), -EAGAIN);
    image_17(&made);
    image_set(&made, 8 * HOTSPOT_TYPES, 0);
    assert_int_equal(read_made(&layout), -EAGAIN);
}

/* Nothing is guessed: each required entry is removed in turn. */
static void test_missing_fields_are_refused(void **state)
{
    struct hotspot_layout layout;
    (void)state;
    image_17(&made);
    const size_t count = made.structs;
    for (size_t i = 0; i < count; i++) {
        image_17(&made);
        image_set(&made, STRUCTS_AT + i * STRUCT_STRIDE + 8, image_text(&made, "_renamed"));
        int r = read_made(&layout);
        const bool has_no_lines = r == 0 && !(layout.flags & HOTSPOT_SCOPES);
        if (r != -ENOTSUP && r != -EAGAIN && !has_no_lines)
            fail_msg("without field %zu: %d", i, r);
    }
    for (size_t i = 0; i < 2; i++) {
        image_17(&made);
        image_set(&made, TYPES_AT + i * TYPE_STRIDE, image_text(&made, "Renamed"));
        assert_int_equal(read_made(&layout), -ENOTSUP);
    }
    image_25(&made); /* has kinds, but not which is a method's */
    image_set(&made, INTS_AT + (made.ints - 1) * INT_STRIDE, image_text(&made, "CodeBlobKind::Other"));
    assert_int_equal(read_made(&layout), -ENOTSUP);
}

static void test_unsupported_types_and_frames_are_refused(void **state)
{
    struct hotspot_layout layout;
    (void)state;
    image_17(&made);
    image_field(&made, "frame", "x", "int", false, 0);
    image_int(&made, "frame::interpreter_frame_sender_sp_offset", -3);
    assert_int_equal(read_made(&layout), -ENOTSUP);
    const char *const kinds[] = {"long", "u1", ""};
    for (size_t i = 0; i < 3; i++) {
        image_common(&made);
        image_field(&made, "GrowableArrayBase", "_len", kinds[i], false, 0);
        assert_int_equal(read_made(&layout), -ENOTSUP);
        image_common(&made);
        image_field(&made, "CodeBlob", "_frame_complete_offset", kinds[i], false, 20);
        assert_int_equal(read_made(&layout), -ENOTSUP);
    }
    image_17(&made); /* VirtualSpace::_high is read with _low */
    image_set(&made, STRUCTS_AT + 9 * STRUCT_STRIDE + 32, 40);
    assert_int_equal(read_made(&layout), -ENOTSUP);
}

static void test_inconsistent_tables_are_refused(void **state)
{
    struct hotspot_layout layout;
    (void)state;
    for (size_t i = 0; i < HOTSPOT_SYMBOL_COUNT; i++) {
        const uint64_t corruptions[] = {
            1,          3,          47,         255,        4096,
            1ULL << 32, 1ULL << 63, UINT64_MAX, IMAGE_BIAS, IMAGE_BIAS + DATA_VADDR + IMAGE_BYTES - 1};
        for (size_t n = 0; n < sizeof(corruptions) / sizeof(*corruptions); n++) {
            image_17(&made);
            image_set(&made, 8 * i, corruptions[n]);
            /* If another field of an entry is read in place of this one, the result may look valid: the BPF side would
             * read unrelated addresses. */
            const bool must_fail = i == HOTSPOT_STRUCTS || i == HOTSPOT_STRUCT_STRIDE || i == HOTSPOT_STRUCT_TYPE ||
                                   i == HOTSPOT_TYPES || i == HOTSPOT_TYPE_STRIDE;
            if (read_made(&layout) >= 0 && must_fail)
                fail_msg("symbol %zu, %llx", i, (unsigned long long)corruptions[n]);
        }
    }
    image_17(&made); /* the same field twice, at another offset */
    image_field(&made, "CodeBlob", "_size", "int", false, 16);
    assert_int_equal(read_made(&layout), -EBADMSG);
    image_17(&made); /* a field outside the readable range */
    image_set(&made, STRUCTS_AT + 12 * STRUCT_STRIDE + 32, 256);
    assert_int_equal(read_made(&layout), -ENOTSUP);
    image_17(&made); /* a static field */
    image_set(&made, STRUCTS_AT + 12 * STRUCT_STRIDE + 24, 1);
    assert_int_equal(read_made(&layout), -EBADMSG);
    image_17(&made); /* invalid addresses */
    image_set(&made, STRUCTS_AT + 40, 0);
    assert_int_equal(read_made(&layout), -EBADMSG);
    image_17(&made); /* an endless table, each entry the same text: reading stops at the end of memory */
    for (size_t at = STRUCTS_AT; at + 8 <= IMAGE_BYTES; at += 8)
        image_set(&made, at, IMAGE_BIAS + TEXTS_VADDR);
    assert_true(read_made(&layout) < 0);
    for (unsigned seed = 0; seed < 3000; seed++) {
        srand(seed);
        image_17(&made);
        for (unsigned i = 0; i < 20; i++)
            made.data[rand() % 2 ? rand() % IMAGE_BYTES : STRUCTS_AT + rand() % 2048] ^= (uint8_t)(1 << rand() % 8);
        (void)read_made(&layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_of_17),
        cmocka_unit_test(test_layouts_of_11_and_25),
        cmocka_unit_test(test_unknown_compiled_code_has_no_lines),
        cmocka_unit_test(test_unfilled_tables_are_retried),
        cmocka_unit_test(test_missing_fields_are_refused),
        cmocka_unit_test(test_unsupported_types_and_frames_are_refused),
        cmocka_unit_test(test_inconsistent_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
