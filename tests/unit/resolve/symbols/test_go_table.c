/* Go's function table, built here byte by byte in the formats of Go 1.18 (text address in the header) and 1.26 (in the
 * module's record), and within other data. */
#include "resolve/symbols/go_frames.h"
#include "resolve/symbols/go_table.h"
#include "resolve/unwind/cfi.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TABLE_AT    0x200
#define MODULE_AT   0x400
#define NAMES_AT    0x500
#define HEADS_AT    0x600
#define BYTES       0x800
#define TEXT        0x401000

#define SEGMENT_AT  0x40
#define CODE_AT     0x180
#define CODE_BYTES  0x50

#define DATA_BEFORE 0x40

static void put_value(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = value >> 8 * i;
}

static void strcpy_at(uint8_t *at, const char *text)
{
    memcpy(at, text, strlen(text) + 1);
}

static uint8_t *make_image(uint32_t magic, uint64_t text_in_header, uint64_t text_in_module)
{
    static const char names[] = "\0.gopclntab\0.go.module\0.shstrtab";
    uint8_t *image = calloc(1, BYTES);
    assert_non_null(image);
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_EXEC,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_phoff = SEGMENT_AT,
                         .e_phnum = 1,
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
    const Elf64_Phdr code = {.p_type = PT_LOAD,
                             .p_flags = PF_R | PF_X,
                             .p_offset = CODE_AT,
                             .p_vaddr = TEXT,
                             .p_filesz = CODE_BYTES,
                             .p_memsz = CODE_BYTES};
    memcpy(image, &header, sizeof(header));
    memcpy(image + SEGMENT_AT, &code, sizeof(code));
    memcpy(image + HEADS_AT, sections, sizeof(sections));
    memcpy(image + NAMES_AT, names, sizeof(names));
    uint8_t *t = image + TABLE_AT;
    put_value(t, magic, 4);
    t[6] = 1;
    t[7] = 8;
    put_value(t + 8, 2, 8); /* functions */
    put_value(t + 24, text_in_header, 8);
    put_value(t + 32, 72, 8);    /* names */
    put_value(t + 56, 0xe0, 8);  /* changes */
    put_value(t + 64, 0x100, 8); /* table of functions */
    memcpy(t + 72, "main.main\0runtime.goexit", 25);
    put_value(t + 0x100, 0, 4); /* main.main: [0, 0x40) */
    put_value(t + 0x104, 0x20, 4);
    put_value(t + 0x108, 0x40, 4); /* runtime.goexit: [0x40, 0x50) */
    put_value(t + 0x10c, 0x50, 4);
    put_value(t + 0x110, CODE_BYTES, 4);
    put_value(t + 0x124, 0, 4); /* their records: place, name */
    put_value(t + 0x130, 1, 4); /* depths */
    put_value(t + 0x154, 10, 4);
    t[0x150 + (magic == 0xfffffff1 ? 41 : 37)] = GO_FUNCTION_TOP_FRAME | GO_FUNCTION_ASSEMBLY;
    memcpy(t + 0xe1, (uint8_t[]){2, 4, 32, 59, 31, 1, 0}, 7); /* +1, +16, -16, each for a number of bytes */
    put_value(image + MODULE_AT + 176, text_in_module, 8);
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
    struct go_table_walk *walk = NULL;
    struct go_function_record read = {0};
    assert_int_equal(go_table_walk_new(&table, &walk), 0);
    assert_true(go_table_next(walk, &read));
    assert_true(read.start == TEXT && read.end == TEXT + 0x40 && read.name_offset == TABLE_AT + 72);
    assert_true(read.depths == 1 && read.flags == 0);
    assert_true(go_table_next(walk, &read));
    assert_true(read.start == TEXT + 0x40 && read.end == TEXT + 0x50 && read.name_offset == TABLE_AT + 82);
    assert_true(read.depths == 0 && read.flags == (GO_FUNCTION_TOP_FRAME | GO_FUNCTION_ASSEMBLY));
    assert_false(go_table_next(walk, &read));
    go_table_walk_free(walk);
    struct go_frames frames;
    go_frames_find(file, &frames);
    assert_int_equal(frames.count, 1);
    assert_true(frames.at[0].start == TEXT + 0x40 && frames.at[0].kind == GO_FRAME_OUTERMOST);
    assert_true(go_frames_have(&frames, TEXT + 0x40) && !go_frames_have(&frames, TEXT));
    elf_file_free(file);
}

/* As the system linker leaves it: the data before it contains something that begins like a table. */
static uint8_t *make_table_among_data(const char *other_section)
{
    uint8_t *image = make_image(0xfffffff1, TEXT, 0);
    Elf64_Shdr *sections = (Elf64_Shdr *)(image + HEADS_AT);
    sections[1].sh_name = 33; /* after the names that exist */
    sections[2].sh_name = 46;
    sections[3].sh_size = 46 + strlen(other_section) + 1;
    strcpy_at(image + NAMES_AT + 33, ".data.rel.ro");
    strcpy_at(image + NAMES_AT + 46, other_section);
    sections[1].sh_addr -= DATA_BEFORE;
    sections[1].sh_offset -= DATA_BEFORE;
    sections[1].sh_size += DATA_BEFORE;
    put_value(image + TABLE_AT - DATA_BEFORE + 8, 0x08010000fffffff1, 8);
    return image;
}

static void test_table_within_other_data_is_found(void **state)
{
    struct elf_file *file = NULL;
    struct go_table table;
    (void)state;
    expect_both(make_table_among_data(".go.buildinfo"));
    assert_int_equal(elf_open_memory(make_table_among_data(".other"), BYTES, &file), 0);
    assert_int_equal(go_table_find(file, &table), -ENOENT); /* not a Go program: not searched */
    elf_file_free(file);
}

static void test_both_formats_are_read(void **state)
{
    (void)state;
    expect_both(make_image(0xfffffff0, TEXT, 0));
    expect_both(make_image(0xfffffff1, 0, TEXT));
}

static bool is_at(const struct unwind_table *t, uint32_t at, int32_t cfa_offset)
{
    const struct unwind_rule *rule = unwind_table_find(t, CODE_AT + at);
    const bool has_frame = cfa_offset > 8;
    return rule && rule->cfa == UNWIND_CFA_SP && rule->cfa_offset == cfa_offset && rule->ra_offset == -8 &&
           rule->fp == (has_frame ? UNWIND_FP_AT_CFA : UNWIND_FP_SAME) && rule->fp_offset == (has_frame ? -16 : 0);
}

/* The rules that `.debug_frame`, which is absent, would contain. */
static void test_unwind_rules_from_the_table(void **state)
{
    _cleanup_(elf_file_freep) struct elf_file *file = NULL;
    _cleanup_(unwind_table_freep) struct unwind_table *t = NULL;
    (void)state;
    assert_int_equal(elf_open_memory(make_image(0xfffffff1, TEXT, 0), BYTES, &file), 0);
    assert_int_equal(cfi_build(file, &t), 0);
    assert_true(is_at(t, 0, 8) && is_at(t, 3, 8));
    assert_true(is_at(t, 4, 24) && is_at(t, 62, 24));
    assert_true(is_at(t, 63, 8));
    assert_int_equal(unwind_table_find(t, CODE_AT + 0x40)->cfa, UNWIND_CFA_END);
    assert_true(t->skipped == 0);
}

/* A function that switches to another stack, by an instruction at 7, and would switch back. */
static uint8_t *make_switch(const char *name, size_t told_bytes)
{
    static const uint8_t code[] = {0x55,                   /* push %rbp */
                                   0x48, 0x89, 0xe5,       /* mov %rsp, %rbp */
                                   0x48, 0x89, 0xe3,       /* mov %rsp, %rbx */
                                   0x49, 0x8b, 0x66, 0x38, /* mov 0x38(%r14), %rsp */
                                   0x50,                   /* push %rax */
                                   0x5d,                   /* pop %rbp */
                                   0xc3, 0x90, 0x90};
    static const uint8_t depths[] = {2, 1, 16, 12, 15, 3, 0}; /* 0 for one byte, 8 for twelve, 0 for three */
    uint8_t *image = make_image(0xfffffff1, TEXT, 0), *table = image + TABLE_AT;
    memcpy(image + CODE_AT + 0x40, code, sizeof(code));
    strcpy_at(table + 82, name);
    put_value(table + 40, 0xe0, 8); /* end of the names */
    put_value(table + 0x160, 8, 4);
    memcpy(table + 0xe8, depths, told_bytes);
    table[0x150 + 41] = GO_FUNCTION_SP_WRITE | GO_FUNCTION_ASSEMBLY;
    return image;
}

static struct unwind_table *rules_of_switch(const char *name, size_t told_bytes)
{
    _cleanup_(elf_file_freep) struct elf_file *file = NULL;
    struct unwind_table *t = NULL;
    assert_int_equal(elf_open_memory(make_switch(name, told_bytes), BYTES, &file), 0);
    assert_int_equal(cfi_build(file, &t), 0);
    return t;
}

static bool is_by_pointer(const struct unwind_table *t, uint32_t at)
{
    const struct unwind_rule *rule = unwind_table_find(t, CODE_AT + at);
    return rule && rule->cfa == UNWIND_CFA_FP && rule->cfa_offset == 16 && rule->ra_offset == -8 &&
           rule->fp == UNWIND_FP_AT_CFA && rule->fp_offset == -16;
}

static void test_caller_is_known_until_the_frame_is_released(void **state)
{
    static const struct {
        const char *name;
        enum unwind_cfa then;
    } functions[] = {{"runtime.mcall", UNWIND_CFA_END}, {"gogo", UNWIND_CFA_UNSUPPORTED}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        _cleanup_(unwind_table_freep) struct unwind_table *t = rules_of_switch(functions[i].name, 7);
        assert_true(is_at(t, 0x40, 8) && is_at(t, 0x41, 16) && is_at(t, 0x43, 16));
        assert_true(is_by_pointer(t, 0x44) && is_by_pointer(t, 0x47));
        assert_int_equal(unwind_table_find(t, CODE_AT + 0x4b)->cfa, functions[i].then);
        assert_int_equal(unwind_table_find(t, CODE_AT + 0x4f)->cfa, functions[i].then);
    }
}

static void test_returning_function_has_its_caller_to_the_last_instruction(void **state)
{
    (void)state;
    _cleanup_(unwind_table_freep) struct unwind_table *t = rules_of_switch("runtime.back", 7);
    assert_true(is_at(t, 0x40, 8) && is_at(t, 0x41, 16) && is_at(t, 0x43, 16));
    assert_true(is_by_pointer(t, 0x44) && is_by_pointer(t, 0x4c));
    assert_true(is_at(t, 0x4d, 8)); /* the frame pointer is its caller's again */
}

static void test_short_depth_table_falls_back_to_the_frame_pointer(void **state)
{
    (void)state;
    _cleanup_(unwind_table_freep) struct unwind_table *t = rules_of_switch("runtime.back", 2);
    assert_true(is_at(t, 0x40, 8));
    assert_true(is_by_pointer(t, 0x44) && is_by_pointer(t, 0x4f));
}

static void test_morestack_unwinds_to_its_goroutine(void **state)
{
    (void)state;
    _cleanup_(unwind_table_freep) struct unwind_table *t = rules_of_switch("runtime.morestack", 7);
    assert_true(is_at(t, 0x40, 8) && is_at(t, 0x43, 16));
    const struct unwind_rule *rule = unwind_table_find(t, CODE_AT + 0x4b);
    assert_true(rule->cfa == UNWIND_CFA_GOROUTINE &&
                rule->ra_offset == 0); /* from saved registers, and nothing on a stack */
}

/* Both directions: a function of that name that does otherwise is treated like any other. */
static void test_systemstack_unwinds_by_the_saved_registers(void **state)
{
    (void)state;
    static const uint8_t code[] = {
        0x48, 0x8b, 0x5a, 0x38, 0x48, 0x89, 0xdc,  /* mov 0x38(%rdx), %rbx; mov %rbx, %rsp: before Go 1.21 */
        0xff, 0xd7,                                /* call *%rdi */
        0x48, 0x8b, 0x60, 0x38, 0xc3, 0x90, 0x90}; /* mov 0x38(%rax), %rsp; ret */
    static const uint8_t depths[] = {2, 16, 0};
    _cleanup_(elf_file_freep) struct elf_file *file = NULL;
    _cleanup_(unwind_table_freep) struct unwind_table *t = NULL, *other = rules_of_switch("runtime.systemstack", 7);
    uint8_t *image = make_switch("runtime.systemstack", 7);
    memcpy(image + CODE_AT + 0x40, code, sizeof(code));
    memcpy(image + TABLE_AT + 0xe8, depths, sizeof(depths));
    assert_int_equal(elf_open_memory(image, BYTES, &file), 0);
    assert_int_equal(cfi_build(file, &t), 0);
    assert_true(is_at(t, 0x40, 8) && is_at(t, 0x44, 8));
    for (uint32_t at = 0x47; at <= 0x49; at++) {
        const struct unwind_rule *rule = unwind_table_find(t, CODE_AT + at);
        assert_true(rule->cfa == UNWIND_CFA_GOROUTINE && rule->cfa_offset == 8 && rule->ra_offset == -8);
    }
    assert_true(is_at(t, 0x4d, 8));
    assert_true(is_by_pointer(other, 0x4b));
}

static void test_scheduler_is_recognised_by_name(void **state)
{
    (void)state;
    _cleanup_(unwind_table_freep) struct unwind_table *t = rules_of_switch("runtime.schedule", 7);
    const struct unwind_rule *rule = unwind_table_find(t, CODE_AT + 0x44);
    assert_true(rule->cfa == UNWIND_CFA_SP_SCHEDULER && rule->cfa_offset == 16 && rule->fp_offset == -16);
}

static void test_unknown_versions_are_refused(void **state)
{
    (void)state;
    struct {
        uint32_t magic;
        uint64_t header, module;
    } wrong[] = {{0xfffffffa, TEXT, 0}, {0, TEXT, 0}, {0xfffffff1, 0, 0}};
    for (size_t i = 0; i < array_size(wrong); i++) {
        struct elf_file *file = NULL;
        struct go_table table;
        assert_int_equal(elf_open_memory(make_image(wrong[i].magic, wrong[i].header, wrong[i].module), BYTES, &file),
                         0);
        assert_int_equal(go_table_find(file, &table), -ENOENT);
        elf_file_free(file);
    }
}

static void test_damaged_tables_are_safe(void **state)
{
    (void)state;
    for (unsigned at = 0; at < 0x180; at++)
        for (unsigned value = 0x7f; value <= 0xff; value += 0x80) {
            uint8_t *image = make_image(0xfffffff0, TEXT, 0);
            image[TABLE_AT + at] = value;
            struct elf_file *file = NULL;
            struct go_table table;
            struct go_function functions[4];
            uint64_t offset = 0;
            assert_int_equal(elf_open_memory(image, BYTES, &file), 0);
            struct go_table_walk *walk = NULL;
            struct go_function_record read;
            if (go_table_find(file, &table) == 0 && go_table_walk_new(&table, &walk) == 0)
                while (go_table_next(walk, &read))
                    assert_true(read.start < read.end && read.name_offset < TABLE_AT + 0x180);
            go_table_walk_free(walk);
            if (go_table_find(file, &table) == 0)
                for (uint32_t i = 0; i < 3; i++) {
                    (void)go_table_functions(&table, i, functions, 4);
                    if (go_table_name(&table, i, &offset) == 0)
                        assert_true(offset >= TABLE_AT && offset < TABLE_AT + 0x180);
                }
            elf_file_free(file);
        }
}

/* Compares the rule of every byte of code in two files of one program: one has .debug_frame, the other was stripped of
 * it. */
static int compare_rules(const struct elf_file *file, const struct unwind_table *const tables[2])
{
    const struct elf_segment *segments;
    unsigned bytes = 0, other = 0;
    const size_t count = elf_segments(file, &segments);
    for (size_t i = 0; i < count; i++)
        for (uint64_t at = 0; segments[i].executable && at < segments[i].file_bytes; at++, bytes++) {
            const struct unwind_rule *a = unwind_table_find(tables[0], (uint32_t)(segments[i].offset + at));
            const struct unwind_rule *b = unwind_table_find(tables[1], (uint32_t)(segments[i].offset + at));
            if ((a == NULL) != (b == NULL) || (a && memcmp(a, b, sizeof(*a)) != 0))
                if (other++ < 20)
                    fprintf(stderr, "%#" PRIx64 ": %d%+d %d, %d%+d %d\n", segments[i].vaddr + at, a ? a->cfa : -1,
                            a ? a->cfa_offset : 0, a ? a->fp : -1, b ? b->cfa : -1, b ? b->cfa_offset : 0,
                            b ? b->fp : -1);
        }
    printf("%u bytes of code, %u with another rule\n", bytes, other);
    return 0;
}

static int compare_files(char **paths)
{
    struct elf_file *files[2] = {NULL};
    struct unwind_table *tables[2] = {NULL};
    int r = 0;
    for (int i = 0; i < 2 && r == 0; i++) {
        const int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        r = fd < 0 || elf_open(fd, &files[i]) < 0 || cfi_build(files[i], &tables[i]) < 0;
        if (r)
            fprintf(stderr, "%s has no rules\n", paths[i]);
    }
    if (r == 0)
        r = compare_rules(files[0], (const struct unwind_table *const *)tables);
    for (int i = 0; i < 2; i++) {
        elf_file_free(files[i]);
        unwind_table_free(tables[i]);
    }
    return r;
}

static void test_damaged_stack_switch_is_safe(void **state)
{
    static const struct {
        size_t from, to;
    } parts[] = {{CODE_AT + 0x40, CODE_AT + 0x50}, {TABLE_AT, TABLE_AT + 0x180}};
    (void)state;
    for (size_t part = 0; part < array_size(parts); part++)
        for (size_t at = parts[part].from; at < parts[part].to; at++)
            for (unsigned value = 0; value <= 0xff; value += 17) {
                _cleanup_(elf_file_freep) struct elf_file *file = NULL;
                _cleanup_(unwind_table_freep) struct unwind_table *t = NULL;
                struct go_frames frames;
                uint8_t *image = make_switch("runtime.mcall", 7);
                image[at] = (uint8_t)value;
                assert_int_equal(elf_open_memory(image, BYTES, &file), 0);
                go_frames_find(file, &frames);
                assert_true(frames.count <= GO_FRAMES_MAX);
                for (size_t i = 0; i < frames.count; i++)
                    assert_true(frames.at[i].start < frames.at[i].end);
                (void)cfi_build(file, &t);
            }
}

/* Without arguments the tests. */
int main(int argc, char **argv)
{
    if (argc == 3)
        return compare_files(argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_formats_are_read),
        cmocka_unit_test(test_table_within_other_data_is_found),
        cmocka_unit_test(test_unwind_rules_from_the_table),
        cmocka_unit_test(test_caller_is_known_until_the_frame_is_released),
        cmocka_unit_test(test_returning_function_has_its_caller_to_the_last_instruction),
        cmocka_unit_test(test_short_depth_table_falls_back_to_the_frame_pointer),
        cmocka_unit_test(test_morestack_unwinds_to_its_goroutine),
        cmocka_unit_test(test_systemstack_unwinds_by_the_saved_registers),
        cmocka_unit_test(test_scheduler_is_recognised_by_name),
        cmocka_unit_test(test_unknown_versions_are_refused),
        cmocka_unit_test(test_damaged_tables_are_safe),
        cmocka_unit_test(test_damaged_stack_switch_is_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
