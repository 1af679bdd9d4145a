/* elf_addresses.c on generated tables, in which names and symbols lie at every place relative to its windows. */
#include "resolve/elf/elf_addresses.h"

#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WINDOW_BYTES 49152
#define NAMES_BYTES  (2 * WINDOW_BYTES)
#define SYMBOLS      (3 * WINDOW_BYTES / sizeof(Elf64_Sym) / 2)
#define MAX_BYTES    (1 << 20)

struct image {
    Elf64_Ehdr header;
    Elf64_Shdr sections[4];
    char section_names[32];
    Elf64_Sym symbols[SYMBOLS];
    char names[NAMES_BYTES];
};

static struct image *make_image(void)
{
    struct image *i = calloc(1, sizeof(*i));
    assert_non_null(i);
    i->header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_DYN,
                             .e_machine = EM_X86_64,
                             .e_shoff = offsetof(struct image, sections),
                             .e_shentsize = sizeof(Elf64_Shdr),
                             .e_shnum = 4,
                             .e_shstrndx = 3};
    memcpy(i->section_names, "\0.symtab\0.strtab\0.names", 23);
    i->sections[1] = (Elf64_Shdr){.sh_name = 1,
                                  .sh_type = SHT_SYMTAB,
                                  .sh_link = 2,
                                  .sh_entsize = sizeof(Elf64_Sym),
                                  .sh_offset = offsetof(struct image, symbols),
                                  .sh_size = sizeof(i->symbols)};
    i->sections[2] = (Elf64_Shdr){
        .sh_name = 9, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct image, names), .sh_size = NAMES_BYTES};
    i->sections[3] = (Elf64_Shdr){.sh_name = 17,
                                  .sh_type = SHT_STRTAB,
                                  .sh_offset = offsetof(struct image, section_names),
                                  .sh_size = sizeof(i->section_names)};
    return i;
}

static void put_name(struct image *i, size_t at, const char *name)
{
    memcpy(i->names + at, name, strlen(name) + 1);
}

static void set_symbol(struct image *i, size_t number, size_t name_at, unsigned type, uint64_t address)
{
    i->symbols[number] = (Elf64_Sym){
        .st_name = (uint32_t)name_at, .st_info = ELF64_ST_INFO(STB_GLOBAL, type), .st_shndx = 1, .st_value = address};
}

/* Takes ownership of `i`. */
static int find_type(struct image *i, uint64_t max_bytes, unsigned type, uint64_t ret[2])
{
    static const char *const names[] = {"first", "second_function"};
    struct elf_file *f;
    assert_int_equal(elf_open_memory(i, sizeof(*i), &f), 0);
    ret[0] = ret[1] = 0;
    const int r = elf_addresses_find(f, ".symtab", max_bytes, type, names, 2, ret);
    elf_file_free(f);
    return r;
}

static int find(struct image *i, uint64_t max_bytes, uint64_t ret[2])
{
    return find_type(i, max_bytes, STT_FUNC, ret);
}

static void test_names_at_the_ends_of_windows(void **state)
{
    (void)state;
    uint64_t found[2];
    for (size_t at = WINDOW_BYTES - 20; at < WINDOW_BYTES + 4; at++) {
        struct image *i = make_image();
        put_name(i, at, "second_function");
        put_name(i, NAMES_BYTES - sizeof("first"), "first");
        set_symbol(i, 0, NAMES_BYTES - sizeof("first"), STT_FUNC, 0x1000);
        set_symbol(i, SYMBOLS - 1, at, STT_FUNC, 0x2000);
        assert_int_equal(find(i, MAX_BYTES, found), 0);
        assert_int_equal(found[0], 0x1000);
        assert_int_equal(found[1], 0x2000);
    }
}

static void test_name_that_is_the_end_of_a_longer_one(void **state)
{
    (void)state;
    uint64_t found[2];
    struct image *i = make_image();
    put_name(i, 1, "not_first");
    set_symbol(i, 7, 1, STT_FUNC, 0x1000);
    set_symbol(i, 8, 1 + strlen("not_"), STT_FUNC, 0x2000);
    assert_int_equal(find(i, MAX_BYTES, found), 0);
    assert_int_equal(found[0], 0x2000);
    assert_int_equal(found[1], 0);
}

static void test_other_symbols_of_the_name(void **state)
{
    (void)state;
    uint64_t found[2];
    struct image *i = make_image();
    put_name(i, 1, "first");
    put_name(i, 10, "second_function_of_many");
    set_symbol(i, 1, 1, STT_OBJECT, 0x1000);
    set_symbol(i, 2, 10, STT_FUNC, 0x2000);
    set_symbol(i, 3, 1, STT_FUNC, 0x3000);
    i->symbols[3].st_shndx = SHN_UNDEF;
    assert_int_equal(find(i, MAX_BYTES, found), 0);
    assert_int_equal(found[0], 0);
    assert_int_equal(found[1], 0);
}

static void test_variables(void **state)
{
    (void)state;
    uint64_t found[2];
    struct image *i = make_image();
    put_name(i, 1, "first");
    put_name(i, 10, "second_function");
    set_symbol(i, 1, 1, STT_OBJECT, 0x1000);
    set_symbol(i, 2, 10, STT_FUNC, 0x2000);
    assert_int_equal(find_type(i, MAX_BYTES, STT_OBJECT, found), 0);
    assert_int_equal(found[0], 0x1000);
    assert_int_equal(found[1], 0);
}

/* Far more ends of names than are kept. */
static void test_table_full_of_one_name(void **state)
{
    (void)state;
    uint64_t found[2];
    struct image *i = make_image();
    for (size_t at = 1; at + sizeof("first") <= NAMES_BYTES; at += sizeof("first"))
        put_name(i, at, "first");
    for (size_t n = 0; n < SYMBOLS; n++)
        set_symbol(i, n, 1 + n * sizeof("first"), STT_FUNC, 0x1000 + n);
    assert_int_equal(find(i, MAX_BYTES, found), 0);
    assert_true(found[0] >= 0x1000);
}

static void test_tables_that_cannot_be_read(void **state)
{
    (void)state;
    uint64_t found[2];
    assert_int_equal(find(make_image(), NAMES_BYTES - 1, found), -EFBIG);
    struct image *i = make_image();
    i->sections[2].sh_size = NAMES_BYTES + 1;
    assert_int_equal(find(i, MAX_BYTES, found), -ENOEXEC);
    i = make_image();
    i->sections[1].sh_link = 4;
    assert_int_equal(find(i, MAX_BYTES, found), -ENOENT);
    i = make_image();
    i->sections[1].sh_name = 9;
    assert_int_equal(find(i, MAX_BYTES, found), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_at_the_ends_of_windows),
        cmocka_unit_test(test_name_that_is_the_end_of_a_longer_one),
        cmocka_unit_test(test_other_symbols_of_the_name),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_table_full_of_one_name),
        cmocka_unit_test(test_tables_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
