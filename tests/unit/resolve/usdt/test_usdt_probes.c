/* Notes of USDT probes: notes written by libsonde are read back, probe by probe; damaged, truncated and foreign notes.
 */
#include "resolve/elf/probe_notes.h"
#include "resolve/usdt/usdt_probes.h"

#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/image.h"

static const struct {
    const char *name, *declaration;
} made[] = {{"late", "str text, f64 x"}, {"all", "i8 a, u64 b"}, {"bare", ""}};

/* An object of libsonde's with these probes. */
static uint8_t *make_object(size_t *ret_size)
{
    static struct probe_arguments arguments[array_size(made)];
    struct probe_image_entry entries[array_size(made)];
    struct probe_image image;
    const char *bad;
    for (size_t i = 0; i < array_size(made); i++) {
        assert_int_equal(probe_arguments_parse(made[i].declaration, &arguments[i], &bad), 0);
        entries[i] = (struct probe_image_entry){made[i].name, &arguments[i]};
    }
    assert_int_equal(probe_image_make("workload", entries, array_size(made), probe_site_choose(), 4096, &image), 0);
    *ret_size = image.size;
    return image.bytes;
}

static void test_libsonde_notes_are_read(void **state)
{
    (void)state;
    size_t size;
    uint8_t *image = make_object(&size);
    const uint8_t first = probe_site_choose()->code[0];
    _cleanup_(elf_file_freep) struct elf_file *file = NULL;
    _cleanup_(usdt_probes_freep) struct usdt_probes *p = NULL;
    assert_int_equal(elf_open_memory(image, size, &file), 0);
    assert_int_equal(usdt_probes_read(file, &p), 0);
    assert_int_equal(p->count, array_size(made));
    assert_true(p->damaged == 0 && p->left_out == 0);
    const char *names[] = {"all", "bare", "late"}, *declarations[] = {"i8 a, u64 b", "", "str text, f64 x"};
    const size_t places[] = {1, 2, 0};
    for (size_t i = 0; i < p->count; i++) {
        const struct usdt_site *s = &p->sites[i];
        assert_string_equal(s->provider, "workload");
        assert_string_equal(s->name, names[i]);
        assert_string_equal(s->declaration, declarations[i]);
        assert_int_equal(s->code, first);
        assert_int_equal(s->semaphore_vaddr, p->sites[2].semaphore_vaddr + 2 * places[i]);
        assert_int_equal(s->vaddr, p->sites[2].vaddr + PROBE_STUB_SIZE * places[i]);
        assert_int_equal(usdt_probes_run(p, i), 1);
    }
}

/* A section, built note by note. */
struct section {
    uint8_t bytes[1024];
    size_t size;
};

static void put_note_bytes(struct section *s, const void *data, size_t size, size_t align)
{
    assert_true(s->size + size + 3 < sizeof(s->bytes));
    memcpy(s->bytes + s->size, data, size);
    s->size += size;
    while (s->size % align)
        s->bytes[s->size++] = 0;
}

static void put_note(struct section *s, const char *owner, uint32_t type, const void *contents, uint32_t size)
{
    const uint32_t head[] = {(uint32_t)strlen(owner) + 1, size, type};
    put_note_bytes(s, head, sizeof(head), 1);
    put_note_bytes(s, owner, strlen(owner) + 1, 4);
    put_note_bytes(s, contents, size, 4);
}

static void put_site(struct section *s, const char *strings, uint32_t size)
{
    char contents[128];
    const uint64_t addresses[] = {0x100, 0x200, 0x300};
    memcpy(contents, addresses, sizeof(addresses));
    memcpy(contents + sizeof(addresses), strings, size);
    put_note(s, "stapsdt", 3, contents, (uint32_t)sizeof(addresses) + size);
}

static void test_foreign_notes_are_skipped(void **state)
{
    (void)state;
    struct section s = {0};
    struct probe_note note;
    uint64_t damaged = 0;
    put_note(&s, "GNU", NT_GNU_BUILD_ID, "12345678901", 11);
    put_note(&s, "stapsdt", 4, "of another type", 15);
    put_note(&s, "", 3, "", 0);
    put_site(&s, "provider\0name\0-4@%esi", 22);
    put_note(&s, "sonde", 0x50, "provider\0name\0i32 n", 20);
    struct cursor c = cursor_make(s.bytes, s.size);
    assert_true(probe_notes_next(&c, &note, &damaged));
    assert_int_equal(note.kind, PROBE_NOTE_SITE);
    assert_true(note.site == 0x100 && note.base == 0x200 && note.semaphore == 0x300);
    assert_string_equal(note.provider, "provider");
    assert_string_equal(note.name, "name");
    assert_string_equal(note.arguments, "-4@%esi");
    assert_true(probe_notes_next(&c, &note, &damaged));
    assert_int_equal(note.kind, PROBE_NOTE_DECLARATION);
    assert_string_equal(note.arguments, "i32 n");
    assert_false(probe_notes_next(&c, &note, &damaged));
    assert_int_equal(damaged, 0);
}

static void test_damaged_note_is_counted_and_skipped(void **state)
{
    (void)state;
    struct section s = {0};
    struct probe_note note;
    uint64_t damaged = 0;
    put_site(&s, "provider\0name\0unended", 21);
    put_site(&s, "\0name\0", 7);
    put_note(&s, "stapsdt", 3, "short", 5);
    put_site(&s, "p\0good\0", 8);
    struct cursor c = cursor_make(s.bytes, s.size);
    assert_true(probe_notes_next(&c, &note, &damaged));
    assert_string_equal(note.name, "good");
    assert_string_equal(note.arguments, "");
    assert_int_equal(damaged, 3);
    assert_false(probe_notes_next(&c, &note, &damaged));
    assert_int_equal(damaged, 3);
    /* Truncated anywhere, it terminates. */
    for (size_t size = 0; size <= s.size; size++) {
        uint8_t *copy = malloc(size ? size : 1); /* so that a sanitizer knows its end */
        assert_non_null(copy);
        memcpy(copy, s.bytes, size);
        c = cursor_make(copy, size);
        for (damaged = 0; probe_notes_next(&c, &note, &damaged);)
            assert_string_equal(note.name, "good");
        free(copy);
    }
}

static void test_damaged_objects_are_safe(void **state)
{
    (void)state;
    size_t size;
    uint8_t *good = make_object(&size);
    for (size_t at = 0; at < size; at++)
        for (unsigned value = 0x7f; value <= 0xff; value += 0x80) {
            if (at > 512 && at < 4096)
                continue; /* between the segments */
            uint8_t *image = malloc(size);
            assert_non_null(image);
            memcpy(image, good, size);
            image[at] = (uint8_t)value;
            struct elf_file *file = NULL;
            _cleanup_(usdt_probes_freep) struct usdt_probes *p = NULL;
            if (elf_open_memory(image, size, &file) < 0) {
                free(image);
                continue;
            }
            if (usdt_probes_read(file, &p) == 0)
                assert_true(p->count <= array_size(made));
            elf_file_free(file);
        }
    free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libsonde_notes_are_read),
        cmocka_unit_test(test_foreign_notes_are_skipped),
        cmocka_unit_test(test_damaged_note_is_counted_and_skipped),
        cmocka_unit_test(test_damaged_objects_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
