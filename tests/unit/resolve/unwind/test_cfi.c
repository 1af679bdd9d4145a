/* cfi.c on generated files: every kind of instruction, encoding and damage that compilers (or others) can produce.
 * Code is at virtual address 0x11000, at offset 0x1000 of the file. */
#include "resolve/unwind/cfi.h"
#include "resolve/unwind/cfi_finder.h"
#include "resolve/unwind/dwarf_expression.h"
#include "resolve/unwind/unwind_table.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../frame_file.h"

#define CODE_OFFSET  0x1000
#define CODE_VADDR   0x11000
#define CODE_BYTES   0x1000
#define FRAME_OFFSET 0x2000
#define FRAME_VADDR  0x22000
#define FILE_BYTES   0x4000

struct maker {
    uint8_t file[FILE_BYTES];
    size_t size; /* of the section so far */
    size_t cie;  /* position of the last CIE */
    uint16_t machine;
    uint64_t entry;
    bool debug_frame;
};

static void put_bytes(struct maker *m, const void *data, size_t size)
{
    assert_true(FRAME_OFFSET + m->size + size <= FILE_BYTES);
    memcpy(m->file + FRAME_OFFSET + m->size, data, size);
    m->size += size;
}

static void put_u32(struct maker *m, uint32_t v)
{
    put_bytes(m, &v, sizeof(v));
}

#define CODE(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

/* A CIE with `augmentation` and the given bytes after it: factors, return register, augmentation data,
 * instructions. */
static void add_cie(struct maker *m, const char *augmentation, const uint8_t *rest, size_t size)
{
    m->cie = m->size;
    size_t length = 4 + 1 + strlen(augmentation) + 1 + size;
    put_u32(m, (uint32_t)length);
    put_u32(m, m->debug_frame ? UINT32_MAX : 0);
    put_bytes(m, "\1", 1);
    put_bytes(m, augmentation, strlen(augmentation) + 1);
    put_bytes(m, rest, size);
}

/* The usual one: code factor 1, data factor -8, return address in column 16, pc-relative 4-byte pointers; at
 * entry CFA is sp + 8 and the return address at CFA - 8. */
static void add_usual_cie(struct maker *m)
{
    add_cie(m, "zR", CODE(1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1));
}

static void add_fde(struct maker *m, uint32_t start, uint32_t size, const uint8_t *code, size_t code_size)
{
    put_u32(m, (uint32_t)(4 + 8 + 1 + code_size));
    put_u32(m, (uint32_t)(m->size - m->cie));
    put_u32(m, (uint32_t)(CODE_VADDR + start - (FRAME_VADDR + m->size)));
    put_u32(m, size);
    put_bytes(m, "\0", 1);
    put_bytes(m, code, code_size);
}

static struct elf_file *finish_with_flags(struct maker *m, uint64_t section_flags)
{
    struct frame_file_head *head = frame_file_fill(m->file, &(struct frame_file){
                                                                .debug_frame = m->debug_frame,
                                                                .machine = m->machine ? m->machine : EM_X86_64,
                                                                .entry = m->entry,
                                                                .code_offset = CODE_OFFSET,
                                                                .code_vaddr = CODE_VADDR,
                                                                .code_bytes = CODE_BYTES,
                                                                .frames_offset = FRAME_OFFSET,
                                                                .frames_vaddr = FRAME_VADDR,
                                                                .frames_bytes = FILE_BYTES - FRAME_OFFSET,
                                                                .section_bytes = m->size,
                                                            });
    head->sections[1].sh_flags = section_flags;
    void *copy = malloc(sizeof(m->file));
    assert_non_null(copy);
    memcpy(copy, m->file, sizeof(m->file));
    struct elf_file *f = NULL;
    assert_int_equal(elf_open_memory(copy, sizeof(m->file), &f), 0);
    return f;
}

static struct elf_file *finish(struct maker *m)
{
    return finish_with_flags(m, 0);
}

static struct unwind_table *build(struct maker *m)
{
    struct elf_file *f = finish(m);
    struct unwind_table *t = NULL;
    assert_int_equal(cfi_build(f, &t), 0);
    elf_file_free(f);
    return t;
}

static struct unwind_rule at(const struct unwind_table *t, uint32_t code)
{
    const struct unwind_rule *rule = unwind_table_find(t, CODE_OFFSET + code);
    return rule ? *rule : (struct unwind_rule){.cfa = UNWIND_CFA_NONE}; /* before the first row */
}

static void assert_sp(const struct unwind_table *t, uint32_t code, int32_t offset)
{
    struct unwind_rule rule = at(t, code);
    assert_int_equal(rule.cfa, UNWIND_CFA_SP);
    assert_int_equal(rule.cfa_offset, offset);
    assert_int_equal(rule.ra_offset, -8);
}

static void test_typical_function(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    /* push rbp; mov rsp, rbp; ...; leave; ret */
    add_fde(&m, 0x20, 0x40, CODE(0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 0x30, 0x0c, 7, 8, 0xc6));
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_int_equal(t->skipped, 0);
    assert_sp(t, 0x20, 8);
    assert_int_equal(at(t, 0x20).fp, UNWIND_FP_SAME);
    assert_sp(t, 0x21, 16);
    assert_int_equal(at(t, 0x21).fp, UNWIND_FP_AT_CFA);
    assert_int_equal(at(t, 0x21).fp_offset, -16);
    assert_int_equal(at(t, 0x24).cfa, UNWIND_CFA_FP);
    assert_int_equal(at(t, 0x24).cfa_offset, 16);
    assert_int_equal(at(t, 0x53).cfa, UNWIND_CFA_FP);
    assert_sp(t, 0x54, 8);
    assert_int_equal(at(t, 0x54).fp, UNWIND_FP_SAME); /* restored */
    assert_sp(t, 0x5f, 8);
    assert_int_equal(at(t, 0x60).cfa, UNWIND_CFA_NONE); /* code without CFI */
    assert_int_equal(at(t, 0x1f).cfa, UNWIND_CFA_NONE);
    assert_int_equal(at(t, 0xfff).cfa, UNWIND_CFA_NONE);
}

static void test_all_instructions(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    add_fde(&m, 0, 0x800,
            CODE(0x02, 0x10, 0x0e, 0x20,                      /* advance_loc1, def_cfa_offset 32 */
                 0x03, 0x10, 0x00, 0x13, 0x78,                /* advance_loc2, def_cfa_offset_sf -8 * -8 */
                 0x04, 0x10, 0x00, 0x00, 0x00, 0x0c, 6, 0x20, /* advance_loc4, def_cfa rbp 32 */
                 0x50, 0x0a, 0x12, 7, 0x76, 0x05, 3, 5,       /* remember; def_cfa_sf rsp -10 * -8; rbx at CFA - 40 */
                 0x50, 0x11, 6, 6, 0x09, 15, 1,               /* rbp at CFA - 48 by a signed offset; r15 in rdx */
                 0x50, 0x0b, 0x08, 3,                         /* restore; rbx same */
                 0x50, 0x2f, 6, 4, 0x2e, 0x10,                /* negative_offset_extended: rbp at CFA + 32; args_size */
                 0x50, 0x07, 6, 0x14, 3, 1, 0x00,             /* rbp undefined, rbx is CFA - 8 */
                 0x50, 0x0c, 7, 8, 0x06, 6, 0xc3,             /* restore rbp and rbx */
                 0x01, 0x00, 0x00, 0x00, 0x00,                /* set_loc: patched below */
                 0x07, 16,                                    /* the return address is undefined */
                 0x1d, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x0e, 0x30)); /* advance_loc8 */
    size_t patch = m.size - 17;
    assert_int_equal(m.file[FRAME_OFFSET + patch - 1], 0x01);
    uint32_t to = (uint32_t)(CODE_VADDR + 0x100 - (FRAME_VADDR + patch));
    memcpy(m.file + FRAME_OFFSET + patch, &to, sizeof(to));
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_int_equal(t->skipped, 0);
    assert_sp(t, 0x00, 8);
    assert_sp(t, 0x10, 32);
    assert_sp(t, 0x20, 64);
    assert_int_equal(at(t, 0x30).cfa, UNWIND_CFA_FP);
    assert_sp(t, 0x40, 80);
    assert_int_equal(at(t, 0x40).bx_words, 5);
    assert_int_equal(at(t, 0x50).fp_offset, -48);
    assert_int_equal(at(t, 0x60).cfa, UNWIND_CFA_FP); /* as remembered */
    assert_int_equal(at(t, 0x60).bx_words, 0);
    assert_int_equal(at(t, 0x60).fp, UNWIND_FP_SAME);
    assert_int_equal(at(t, 0x70).fp_offset, 32);
    assert_int_equal(at(t, 0x80).fp, UNWIND_FP_UNDEFINED);
    assert_sp(t, 0x90, 8);
    assert_int_equal(at(t, 0x90).fp, UNWIND_FP_SAME);
    assert_int_equal(at(t, 0x100).cfa, UNWIND_CFA_END);
    assert_int_equal(at(t, 0x7ff).cfa, UNWIND_CFA_END);
}

static void test_expressions(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    /* A realigned stack: r10 holds the CFA, then it is saved at rbp - 8. */
    add_fde(&m, 0, 0x100, CODE(0x45, 0x0c, 10, 0, 0x47, 0x10, 6, 2, 0x76, 0, 0x43, 0x0f, 3, 0x76, 0x78, 0x06));
    /* A PLT, then OpenSSL's `CFA = *(rsp + 40) + 8`, then an expression of no known kind. */
    add_fde(&m, 0x200, 0x100,
            CODE(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22, 0x50, 0x0f, 5, 0x77, 40, 0x06,
                 0x23, 8, 0x50, 0x0f, 4, 0x77, 8, 0x79, 0));
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_int_equal(at(t, 0x05).cfa, UNWIND_CFA_REGISTER);
    assert_int_equal(at(t, 0x05).cfa_register, 10);
    assert_int_equal(at(t, 0x0c).fp, UNWIND_FP_AT_FP);
    assert_int_equal(at(t, 0x0f).cfa, UNWIND_CFA_FP_DEREF);
    assert_int_equal(at(t, 0x0f).cfa_offset, -8);
    assert_int_equal(at(t, 0x200).cfa, UNWIND_CFA_PLT);
    assert_int_equal(at(t, 0x200).cfa_offset, 11);
    assert_int_equal(at(t, 0x210).cfa, UNWIND_CFA_SP_DEREF);
    assert_int_equal(at(t, 0x210).cfa_offset, 40);
    assert_int_equal(at(t, 0x210).cfa_add, 8);
    assert_int_equal(at(t, 0x220).cfa, UNWIND_CFA_UNSUPPORTED);
}

static void test_signal_frames(void **state)
{
    (void)state;
    struct maker m = {0};
    add_cie(&m, "zRS", CODE(1, 0x78, 16, 1, 0x1b));
    add_fde(&m, 0x0f, 0x20, CODE(0x0f, 4, 0x77, 0xa0, 0x01, 0x06, 0x10, 16, 3, 0x77, 0xa8, 0x01));
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_int_equal(at(t, 0x10).cfa, UNWIND_CFA_SIGNAL);
    assert_int_equal(at(t, 0x10).cfa_offset, 0);
}

static void test_signal_trampolines_without_cfi(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    add_fde(&m, 0, 0x20, CODE(0x00));
    memcpy(m.file + CODE_OFFSET + 0x123, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9);
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_int_equal(at(t, 0x121).cfa, UNWIND_CFA_NONE);
    assert_int_equal(at(t, 0x122).cfa, UNWIND_CFA_SIGNAL); /* where a return to its first byte is looked up */
    assert_int_equal(at(t, 0x123).cfa, UNWIND_CFA_SIGNAL);
    assert_int_equal(at(t, 0x12b).cfa, UNWIND_CFA_SIGNAL);
    assert_int_equal(at(t, 0x12c).cfa, UNWIND_CFA_NONE);
}

/* The finder for single rules, with a search table of one FDE, for code at `start`. */
static struct cfi_finder *make_finder(struct maker *m, uint32_t start, size_t description)
{
    enum { OFFSET = 0x3000, VADDR = FRAME_VADDR + OFFSET - FRAME_OFFSET };
    const uint32_t table[] = {FRAME_VADDR - (VADDR + 4), 1, CODE_VADDR + start - VADDR,
                              (uint32_t)(FRAME_VADDR + description - VADDR)};
    memcpy(m->file + OFFSET, "\1\x1b\x03\x3b", 4);
    memcpy(m->file + OFFSET + 4, table, sizeof(table));
    ((struct frame_file_head *)m->file)->segments[2] = (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME,
                                                                    .p_offset = OFFSET,
                                                                    .p_vaddr = VADDR,
                                                                    .p_filesz = 4 + sizeof(table),
                                                                    .p_memsz = 4 + sizeof(table)};
    struct cfi_finder *finder = NULL;
    assert_int_equal(cfi_finder_new(finish(m), &finder), 0);
    return finder;
}

static void test_finder_recognises_trampolines(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    size_t description = m.size;
    add_fde(&m, 0, 0x20, CODE(0x00));
    /* one right after described code, two in a row */
    static const uint32_t places[] = {0x20, 0x123, 0x12c};
    for (size_t i = 0; i < array_size(places); i++)
        memcpy(m.file + CODE_OFFSET + places[i], "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9);
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_int_equal(at(t, 0x28).cfa, UNWIND_CFA_SIGNAL);
    assert_int_equal(at(t, 0x134).cfa, UNWIND_CFA_SIGNAL);
    _cleanup_(cfi_finder_freep) struct cfi_finder *finder = make_finder(&m, 0, description);
    for (uint32_t code = 0; code < 0x200; code++) {
        struct unwind_rule rule;
        assert_int_equal(cfi_finder_find(finder, CODE_OFFSET + code, &rule), 0);
        assert_int_equal(rule.cfa, at(t, code).cfa);
        assert_int_equal(rule.cfa_offset, at(t, code).cfa_offset);
    }
}

static void test_entry_point_without_cfi(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    add_fde(&m, 0x110, 0x20, CODE(0x00));
    memcpy(m.file + CODE_OFFSET + 0x100, "\x48\x31\xed\x48\x89\xe7\xe8", 7); /* musl's _start */
    m.entry = CODE_VADDR + 0x100;
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_int_equal(at(t, 0x100).cfa, UNWIND_CFA_END);
    assert_int_equal(at(t, 0x10f).cfa, UNWIND_CFA_END);
    assert_sp(t, 0x110, 8);
    memset(m.file + CODE_OFFSET + 0x100, 0x90, 7); /* an invalid entry point */
    _cleanup_(unwind_table_freep) struct unwind_table *other = build(&m);
    assert_int_equal(at(other, 0x100).cfa, UNWIND_CFA_NONE);
}

static void test_plt_without_cfi(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    add_fde(&m, 0x200, 0x20, CODE(0x00));
    struct frame_file_head *h = (struct frame_file_head *)m.file;
    h->sections[3] = (Elf64_Shdr){.sh_name = 31,
                                  .sh_type = SHT_PROGBITS,
                                  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                  .sh_addr = CODE_VADDR + 0x100,
                                  .sh_offset = CODE_OFFSET + 0x100,
                                  .sh_size = 0x30};
    memcpy(m.file + CODE_OFFSET + 0x100, "\xff\x35\0\0\0\0\xff\x25", 8);
    memcpy(m.file + CODE_OFFSET + 0x110, "\xff\x25\0\0\0\0\x68\0\0\0\0\xe9", 12);
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_sp(t, 0x100, 16);
    assert_sp(t, 0x106, 24);
    assert_int_equal(at(t, 0x110).cfa, UNWIND_CFA_PLT);
    assert_int_equal(at(t, 0x110).cfa_offset, 11);
    assert_int_equal(at(t, 0x12f).cfa, UNWIND_CFA_PLT);
    assert_int_equal(at(t, 0x130).cfa, UNWIND_CFA_NONE);
}

static void test_damaged_fde_is_skipped(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    add_fde(&m, 0x00, 0x20, CODE(0x44, 0x0e, 16, 0x48, 0x3f)); /* unknown instruction at +0xc */
    add_fde(&m, 0x20, 0x20, CODE(0x44, 0x0b));                 /* restore without remember */
    add_fde(&m, 0x40, 0x20, CODE(0x0f, 0x7f));                 /* an expression longer than its section */
    add_fde(&m, 0x60, 0x20, CODE(0x44, 0x0e, 24));
    add_cie(&m, "?", CODE(1, 0x78, 16)); /* an unknown augmentation, which cannot be skipped */
    add_fde(&m, 0x80, 0x20, CODE(0x00));
    put_u32(&m, 0x7fffffff); /* a length that exceeds the section: the end */
    put_u32(&m, 4);
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_sp(t, 0x00, 8);
    assert_sp(t, 0x04, 16);
    assert_int_equal(at(t, 0x0c).cfa, UNWIND_CFA_UNSUPPORTED);
    assert_sp(t, 0x20, 8);
    assert_int_equal(at(t, 0x24).cfa, UNWIND_CFA_UNSUPPORTED);
    assert_int_equal(at(t, 0x40).cfa, UNWIND_CFA_UNSUPPORTED);
    assert_sp(t, 0x60, 8);
    assert_sp(t, 0x64, 24);
    assert_int_equal(at(t, 0x80).cfa, UNWIND_CFA_NONE);
    assert_int_equal(t->skipped, 4);
}

static void test_overlapping_fdes_are_cut(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    add_fde(&m, 0x40, 0x40, CODE(0x0e, 32)); /* out of order, and overlapping the next */
    add_fde(&m, 0x00, 0x100, CODE(0x0e, 16));
    add_fde(&m, 0x40, 0x20, CODE(0x0e, 64));     /* the same start again: the first one is used */
    add_fde(&m, 0x100000, 0x20, CODE(0x0e, 24)); /* outside all code: a function discarded by the linker */
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_sp(t, 0x3f, 16);
    assert_sp(t, 0x40, 32);
    assert_sp(t, 0x7f, 32);
    assert_int_equal(at(t, 0x80).cfa, UNWIND_CFA_NONE);
}

static void test_small_gaps_are_padding(void **state)
{
    (void)state;
    struct maker m = {0};
    add_usual_cie(&m);
    add_fde(&m, 0x00, 0x18, CODE(0x00));
    add_fde(&m, 0x20, 0x10, CODE(0x00));
    add_fde(&m, 0x40, 0x10, CODE(0x00));
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_sp(t, 0x1c, 8);                              /* up to the next 16 bytes */
    assert_int_equal(at(t, 0x30).cfa, UNWIND_CFA_NONE); /* large enough for a function */
    assert_int_equal(t->row_count, 4);
}

static void test_debug_frame_of_version_4(void **state)
{
    (void)state;
    struct maker m = {.debug_frame = true};
    static const uint8_t cie[] = {4, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1};
    put_u32(&m, 4 + sizeof(cie));
    put_u32(&m, UINT32_MAX);
    put_bytes(&m, cie, sizeof(cie));
    uint64_t range[2] = {CODE_VADDR + 0x10, 0x20};
    put_u32(&m, 4 + sizeof(range) + 3);
    put_u32(&m, 0);
    put_bytes(&m, range, sizeof(range));
    put_bytes(&m, "\x44\x0e\x10", 3);
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_sp(t, 0x10, 8);
    assert_sp(t, 0x14, 16);
    assert_int_equal(at(t, 0x30).cfa, UNWIND_CFA_NONE);
}

static void test_arm64(void **state)
{
    (void)state;
    struct maker m = {.machine = EM_AARCH64};
    add_cie(&m, "zRB", CODE(4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0));
    /* paciasp; stp x29, x30, [sp, #-32]!; mov x29, sp */
    add_fde(&m, 0, 0x40, CODE(0x2d, 0x41, 0x0e, 32, 0x9d, 4, 0x9e, 3, 0x41, 0x0d, 29));
    memcpy(m.file + CODE_OFFSET + 0x100, "\x68\x11\x80\xd2\x01\x00\x00\xd4", 8);
    _cleanup_(unwind_table_freep) struct unwind_table *t = build(&m);
    assert_int_equal(at(t, 0).cfa, UNWIND_CFA_SP);
    assert_int_equal(at(t, 0).cfa_offset, 0);
    assert_int_equal(at(t, 0).ra_offset, 0); /* still in x30 */
    assert_int_equal(at(t, 4).cfa_offset, 32);
    assert_int_equal(at(t, 4).ra_offset, -24);
    assert_int_equal(at(t, 4).fp_offset, -32);
    assert_int_equal(at(t, 8).cfa, UNWIND_CFA_FP);
    assert_int_equal(at(t, 0x100).cfa, UNWIND_CFA_SIGNAL);
    assert_int_equal(at(t, 0x100).cfa_offset, 128);
}

static void test_files_without_cfi(void **state)
{
    (void)state;
    struct maker m = {0};
    struct elf_file *f = finish(&m);
    struct unwind_table *t = NULL;
    assert_int_equal(cfi_build(f, &t), -ENOENT);
    assert_null(t);
    elf_file_free(f);
    add_cie(&m, "?", CODE(1, 0x78, 16));
    add_fde(&m, 0, 0x20, CODE(0x00));
    f = finish(&m);
    assert_int_equal(cfi_build(f, &t), -ENOEXEC);
    elf_file_free(f);
}

/* More pages than the header's index has slots, and distances that need new pages. */
static void test_search_in_large_tables(void **state)
{
    (void)state;
    _cleanup_(unwind_table_writer_freep) struct unwind_table_writer *w = NULL;
    assert_int_equal(unwind_table_writer_new(&w), 0);
    const uint32_t rows = 200000;
    for (uint32_t i = 0; i < rows; i++)
        unwind_table_writer_add(
            w, 1000 + i * 8 + (i > rows / 2 ? 1000000 : 0),
            &(struct unwind_rule){.cfa = UNWIND_CFA_SP, .cfa_offset = (int32_t)(i % 1000), .ra_offset = -8});
    _cleanup_(unwind_table_freep) struct unwind_table *t = NULL;
    assert_int_equal(unwind_table_writer_finish(w, &t), 0);
    assert_int_equal(t->row_count, rows);
    assert_null(unwind_table_find(t, 999));
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t start = 1000 + i * 8 + (i > rows / 2 ? 1000000 : 0);
        assert_int_equal(unwind_table_find(t, start)->cfa_offset, i % 1000);
        assert_int_equal(unwind_table_find(t, start + 7)->cfa_offset, i % 1000);
    }
    assert_true(t->value_count * UNWIND_VALUE_BYTES < rows * 4.3);
}

static void test_excess_rules_are_counted(void **state)
{
    (void)state;
    _cleanup_(unwind_table_writer_freep) struct unwind_table_writer *w = NULL;
    assert_int_equal(unwind_table_writer_new(&w), 0);
    for (int32_t i = 0; i < UNWIND_MAX_RULES + 10; i++)
        unwind_table_writer_add(w, (uint32_t)i * 2, &(struct unwind_rule){.cfa = UNWIND_CFA_SP, .cfa_offset = i});
    _cleanup_(unwind_table_freep) struct unwind_table *t = NULL;
    assert_int_equal(unwind_table_writer_finish(w, &t), 0);
    assert_int_equal(t->rule_count, UNWIND_MAX_RULES);
    assert_int_equal(t->skipped, 12); /* two rules are the writer's own */
    assert_int_equal(unwind_table_find(t, (UNWIND_MAX_RULES + 9) * 2)->cfa, UNWIND_CFA_UNSUPPORTED);

    _cleanup_(unwind_table_writer_freep) struct unwind_table_writer *oversized = NULL;
    assert_int_equal(unwind_table_writer_new(&oversized), 0);
    for (uint32_t i = 0; i <= UNWIND_MAX_PAGES * UNWIND_PAGE_ROWS; i++)
        unwind_table_writer_add(oversized, i * 4,
                                &(struct unwind_rule){.cfa = UNWIND_CFA_SP, .cfa_offset = (int32_t)(i & 1)});
    struct unwind_table *none = NULL;
    assert_int_equal(unwind_table_writer_finish(oversized, &none), -EFBIG);
    assert_null(none);
}

/* The bytes that are decompressed count: a file of 64 KiB could otherwise take 256 MiB. */
static void test_compressed_sections_count_as_decompressed(void **state)
{
    (void)state;
    struct maker m = {.debug_frame = true, .size = 2 * sizeof(Elf64_Chdr)};
    const Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = (uint64_t)200 << 20};
    memcpy(m.file + FRAME_OFFSET, &header, sizeof(header));
    _cleanup_(elf_file_freep) struct elf_file *f = finish_with_flags(&m, SHF_COMPRESSED);
    assert_int_equal(cfi_input_bytes(f), (uint64_t)200 << 20);
}

/* This program, as a packer leaves it. */
static struct elf_file *open_self_without_sections(void)
{
    const size_t max = 64 << 20;
    uint8_t *bytes = malloc(max);
    assert_non_null(bytes);
    FILE *self = fopen("/proc/self/exe", "re");
    assert_non_null(self);
    const size_t size = fread(bytes, 1, max, self);
    fclose(self);
    assert_true(size > sizeof(Elf64_Ehdr) && size < max);
    Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
    header->e_shoff = 0;
    header->e_shnum = header->e_shstrndx = 0;
    struct elf_file *f = NULL;
    assert_int_equal(elf_open_memory(bytes, size, &f), 0);
    return f;
}

/* Such a file is not taken for one whose table costs nothing to build. */
static void test_file_without_section_headers(void **state)
{
    (void)state;
    _cleanup_(elf_file_freep) struct elf_file *whole = NULL;
    assert_int_equal(elf_open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &whole), 0);
    _cleanup_(elf_file_freep) struct elf_file *f = open_self_without_sections();
    assert_null(elf_section(f, ".eh_frame"));
    assert_true(cfi_input_bytes(f) >= elf_section(whole, ".eh_frame")->size_bytes);
    _cleanup_(unwind_table_freep) struct unwind_table *t = NULL;
    assert_int_equal(cfi_build(f, &t), 0);
    assert_true(t->row_count > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_typical_function),
        cmocka_unit_test(test_all_instructions),
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_signal_frames),
        cmocka_unit_test(test_signal_trampolines_without_cfi),
        cmocka_unit_test(test_finder_recognises_trampolines),
        cmocka_unit_test(test_entry_point_without_cfi),
        cmocka_unit_test(test_plt_without_cfi),
        cmocka_unit_test(test_damaged_fde_is_skipped),
        cmocka_unit_test(test_overlapping_fdes_are_cut),
        cmocka_unit_test(test_small_gaps_are_padding),
        cmocka_unit_test(test_debug_frame_of_version_4),
        cmocka_unit_test(test_arm64),
        cmocka_unit_test(test_files_without_cfi),
        cmocka_unit_test(test_file_without_section_headers),
        cmocka_unit_test(test_compressed_sections_count_as_decompressed),
        cmocka_unit_test(test_search_in_large_tables),
        cmocka_unit_test(test_excess_rules_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
