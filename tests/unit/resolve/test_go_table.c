/* Go's table of functions, made here byte by byte in the forms of Go 1.18 (text in the header) and 1.26 (text
 * in the module's record). */
#include "resolve/go_table.h"

#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TABLE_AT  0x200
#define MODULE_AT 0x400
#define NAMES_AT  0x500
#define HEADS_AT  0x600
#define BYTES     0x800
#define TEXT      0x401000

static void put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = value >> 8 * i;
}

static uint8_t *make(uint32_t magic, uint64_t text_in_header, uint64_t text_in_module)
{
    static const char names[] = "\0.gopclntab\0.go.module\0.shstrtab";
    uint8_t *image = calloc(1, BYTES);
    assert_non_null(image);
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_EXEC,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_shoff = HEADS_AT,
                         .e_ehsize = sizeof(header),
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = 4,
                         .e_shstrndx = 3};
    Elf64_Shdr sections[] = {
        {0},
        {1, SHT_PROGBITS, SHF_ALLOC, 0x500000, TABLE_AT, 0x180},
        {12, SHT_PROGBITS, SHF_ALLOC, 0x600000, MODULE_AT, 0x100},
        {23, SHT_STRTAB, 0, 0, NAMES_AT, sizeof(names)},
    };
    memcpy(image, &header, sizeof(header));
    memcpy(image + HEADS_AT, sections, sizeof(sections));
    memcpy(image + NAMES_AT, names, sizeof(names));
    uint8_t *t = image + TABLE_AT;
    put(t, magic, 4);
    t[6] = 1;
    t[7] = 8;
    put(t + 8, 2, 8); /* functions */
    put(t + 24, text_in_header, 8);
    put(t + 32, 72, 8);    /* names */
    put(t + 64, 0x100, 8); /* table of functions */
    memcpy(t + 72, "main.main\0runtime.goexit", 25);
    put(t + 0x100, 0, 4); /* main.main: [0, 0x40) */
    put(t + 0x104, 0x20, 4);
    put(t + 0x108, 0x40, 4); /* runtime.goexit: [0x40, 0x50) */
    put(t + 0x10c, 0x30, 4);
    put(t + 0x110, 0x50, 4);
    put(t + 0x124, 0, 4); /* their records: place, name */
    put(t + 0x134, 10, 4);
    put(image + MODULE_AT + 176, text_in_module, 8);
    return image;
}

static void expect_both(uint8_t *image)
{
    struct elf_file *file = NULL;
    struct go_table table;
    struct go_function functions[4];
    assert_int_equal(elf_open_memory(image, BYTES, &file), 0);
    assert_int_equal(go_table_find(file, &table), 0);
    assert_int_equal(go_table_functions(&table, 0, functions, 4), 2);
    assert_true(functions[0].start == TEXT && functions[0].end == TEXT + 0x40);
    assert_true(functions[1].start == TEXT + 0x40 && functions[1].end == TEXT + 0x50);
    assert_int_equal(go_table_functions(&table, 1, functions, 4), 1);
    assert_true(functions[0].start == TEXT + 0x40);
    assert_int_equal(go_table_functions(&table, 2, functions, 4), 0);
    uint64_t offset;
    assert_int_equal(go_table_name(&table, 0, &offset), 0);
    assert_true(offset == TABLE_AT + 72);
    assert_int_equal(go_table_name(&table, 1, &offset), 0);
    assert_true(offset == TABLE_AT + 82);
    assert_int_equal(go_table_name(&table, 2, &offset), -ENOENT);
    elf_file_free(file);
}

static void both_forms_are_read(void **state)
{
    (void)state;
    expect_both(make(0xfffffff0, TEXT, 0));
    expect_both(make(0xfffffff1, 0, TEXT));
}

static void what_is_not_known_is_refused(void **state)
{
    (void)state;
    struct {
        uint32_t magic;
        uint64_t header, module;
    } wrong[] = {{0xfffffffa, TEXT, 0}, {0, TEXT, 0}, {0xfffffff1, 0, 0}};
    for (size_t i = 0; i < array_size(wrong); i++) {
        struct elf_file *file = NULL;
        struct go_table table;
        assert_int_equal(
            elf_open_memory(make(wrong[i].magic, wrong[i].header, wrong[i].module), BYTES, &file), 0);
        assert_int_equal(go_table_find(file, &table), -ENOENT);
        elf_file_free(file);
    }
}

static void damage_is_survived(void **state)
{
    (void)state;
    for (unsigned at = 0; at < 0x180; at++)
        for (unsigned value = 0x7f; value <= 0xff; value += 0x80) {
            uint8_t *image = make(0xfffffff0, TEXT, 0);
            image[TABLE_AT + at] = value;
            struct elf_file *file = NULL;
            struct go_table table;
            struct go_function functions[4];
            uint64_t offset = 0;
            assert_int_equal(elf_open_memory(image, BYTES, &file), 0);
            if (go_table_find(file, &table) == 0)
                for (uint32_t i = 0; i < 3; i++) {
                    (void)go_table_functions(&table, i, functions, 4);
                    if (go_table_name(&table, i, &offset) == 0)
                        assert_true(offset >= TABLE_AT && offset < TABLE_AT + 0x180);
                }
            elf_file_free(file);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_are_read),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test(damage_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
