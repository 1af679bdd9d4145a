/* The offset of Go's labels in a program, from its file: built here byte by byte. With a program's path as argument the
 * test prints the offset in that program (tests/e2e/test_go_labels.py compares it with debug information). */
#include "resolve/elf/elf.h"
#include "resolve/elf/go_labels.h"

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NAMES "\0.go.buildinfo\0.shstrtab\0.symtab\0.strtab\0.interp"
enum { NAME_INFO = 1, NAME_NAMES = 15, NAME_SYMBOLS = 25, NAME_TEXTS = 33, NAME_INTERPRETER = 41 };

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr tls;
    Elf64_Shdr sections[6];
    char names[64], texts[64];
    Elf64_Sym symbols[3];
    uint8_t info[64];
};

static struct image image_of(const char *version)
{
    struct image i = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                   .e_type = ET_EXEC,
                   .e_machine = EM_X86_64,
                   .e_phoff = offsetof(struct image, tls),
                   .e_phentsize = sizeof(Elf64_Phdr),
                   .e_shoff = offsetof(struct image, sections),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 6,
                   .e_shstrndx = 2},
        .tls = {.p_type = PT_TLS, .p_memsz = 0x78, .p_align = 16},
        .sections = {[1] = {.sh_name = NAME_INFO,
                            .sh_type = SHT_PROGBITS,
                            .sh_offset = offsetof(struct image, info),
                            .sh_size = 64},
                     [2] = {.sh_name = NAME_NAMES,
                            .sh_type = SHT_STRTAB,
                            .sh_offset = offsetof(struct image, names),
                            .sh_size = sizeof(NAMES)},
                     [3] = {.sh_name = NAME_SYMBOLS,
                            .sh_type = SHT_SYMTAB,
                            .sh_offset = offsetof(struct image, symbols),
                            .sh_size = 3 * sizeof(Elf64_Sym)},
                     [4] = {.sh_name = NAME_TEXTS,
                            .sh_type = SHT_STRTAB,
                            .sh_offset = offsetof(struct image, texts),
                            .sh_size = 64},
                     [5] = {.sh_type = SHT_PROGBITS}},
        .texts = "\0errno\0runtime.tlsg",
        .symbols = {[1] = {.st_name = 1, .st_info = STT_TLS, .st_value = 8},
                    [2] = {.st_name = 7, .st_info = STT_TLS, .st_value = 0x20}},
        .info = "\xff Go buildinf:\x08\x02",
    };
    memcpy(i.names, NAMES, sizeof(NAMES));
    i.info[32] = (uint8_t)strlen(version);
    memcpy(i.info + 33, version, strlen(version));
    return i;
}

static int read_image(const struct image *image, struct go_labels_file *ret)
{
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    void *copy = malloc(sizeof(*image));
    assert_non_null(copy);
    memcpy(copy, image, sizeof(*image));
    assert_int_equal(elf_open_memory(copy, sizeof(*image), &f), 0);
    return go_labels_read(f, ret);
}

static unsigned kind_of(const struct image *image)
{
    struct go_labels_file found = {0};
    assert_int_equal(read_image(image, &found), 0);
    assert_true(found.layout.kind != GO_LABELS_UNKNOWN ||
                (!found.layout.g_m && !found.layout.thread_g)); /* without it the labels cannot be read */
    return found.layout.kind;
}

static void test_layout_follows_the_version(void **state)
{
    (void)state;
    static const struct {
        const char *version;
        unsigned kind;
    } cases[] = {
        {"go1.18", GO_LABELS_MAP},         {"go1.23.12", GO_LABELS_MAP},
        {"go1.24", GO_LABELS_LIST},        {"go1.26.1 X:boringcrypto", GO_LABELS_LIST},
        {"go1.17.3", GO_LABELS_UNKNOWN},   {"go1.26rc1", GO_LABELS_UNKNOWN},
        {"go1.27", GO_LABELS_UNKNOWN},     {"go1.99999999999999999999", GO_LABELS_UNKNOWN},
        {"", GO_LABELS_UNKNOWN},           {"devel go1.26-abc", GO_LABELS_UNKNOWN},
        {"go1.", GO_LABELS_UNKNOWN},       {"go1. 24", GO_LABELS_UNKNOWN},
        {"go1.-24", GO_LABELS_UNKNOWN},    {"go2.24", GO_LABELS_UNKNOWN},
        {"go1.24\xff", GO_LABELS_UNKNOWN},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        struct image image = image_of(cases[i].version);
        assert_int_equal(kind_of(&image), cases[i].kind);
    }
    struct image image = image_of("go1.24");
    struct go_labels_file found = {0};
    image.info[15] = 0; /* as before Go 1.18: addresses follow */
    assert_int_equal(read_image(&image, &found), 0);
    assert_int_equal(found.layout.kind, GO_LABELS_UNKNOWN);
    assert_string_equal(found.version, "");
}

static struct go_labels_layout layout_of_version(const char *version)
{
    struct image image = image_of(version);
    struct go_labels_file found = {0};
    assert_int_equal(read_image(&image, &found), 0);
    return found.layout;
}

static void test_waits_follow_the_version(void **state)
{
    (void)state;
    struct go_labels_layout found = layout_of_version("go1.20.14");
    assert_int_equal(found.g_status, 0x90);
    assert_int_equal(found.g_creator, 0); /* since 1.21 */
    assert_int_equal(found.waits[19], RECORDER_TASK_WAITS_TIMER);
    assert_int_equal(found.waits[21], RECORDER_TASK_WAITS_LOCK);
    found = layout_of_version("go1.23.4");
    assert_int_equal(found.g_status, 0x98);
    assert_int_equal(found.g_creator, 0x118);
    assert_int_equal(found.waits[14], RECORDER_TASK_WAITS_TASK);
    found = layout_of_version("go1.26.1");
    assert_int_equal(found.g_status, 0x90);
    assert_int_equal(found.waits[14], RECORDER_TASK_WAITS_TIMER);
    assert_int_equal(found.waits[22], RECORDER_TASK_WAITS_LOCK);
    assert_int_equal(found.waits[0], RECORDER_TASK_WAITS);
    assert_int_equal(found.waits[27], RECORDER_TASK_WAITS_GC);
    found = layout_of_version("go1.24.13");
    assert_int_equal(found.waits[24], RECORDER_TASK_WAITS_TASK);
    assert_int_equal(found.waits[26], RECORDER_TASK_WAITS_GC);
    found = layout_of_version("go1.25.7");
    assert_int_equal(found.waits[20], RECORDER_TASK_WAITS_TIMER);
    assert_int_equal(found.waits[24], RECORDER_TASK_WAITS_LOCK);
    found = layout_of_version("go1.19.1"); /* numbers that are not in the table: nothing is read */
    assert_int_equal(found.g_status, 0);
    assert_true(found.g_labels);
}

static void test_damaged_build_info_is_refused(void **state)
{
    (void)state;
    struct go_labels_file found = {.version = "as it was"};
    struct image image = image_of("go1.24");
    image.info[0] = 'x';
    assert_int_equal(read_image(&image, &found), -ENOENT);
    image = image_of("go1.24");
    image.sections[1].sh_size = 31;
    assert_int_equal(read_image(&image, &found), -ENOENT);
    image.sections[1].sh_type = SHT_NOBITS;
    assert_int_equal(read_image(&image, &found), -ENOENT);
    image = image_of("go1.24");
    image.sections[1].sh_offset = 1ull << 40;
    assert_true(read_image(&image, &found) < 0);
    assert_string_equal(found.version, "as it was");
    image = image_of("go1.24");
    image.sections[1].sh_size = 35; /* the length exceeds the data */
    assert_int_equal(kind_of(&image), GO_LABELS_UNKNOWN);
    memset(image.info + 32, 0xff, 32); /* an endless length */
    image.sections[1].sh_size = 64;
    assert_int_equal(kind_of(&image), GO_LABELS_UNKNOWN);
}

static int64_t place_of(const struct image *image)
{
    struct go_labels_file found = {0};
    assert_int_equal(read_image(image, &found), 0);
    assert_int_equal(found.layout.kind, GO_LABELS_LIST);
    return found.layout.thread_g;
}

static void test_tls_offset_of_the_g_variable(void **state)
{
    (void)state;
    struct image image = image_of("go1.24");
    assert_int_equal(place_of(&image), -8); /* no section headers: Go's own linker does not need them */
    image.header.e_phnum = 1;
    assert_int_equal(place_of(&image), 0x20 - 0x80); /* one of several */
    image.symbols[2].st_value = 0x80;
    assert_int_equal(kind_of(&image), GO_LABELS_UNKNOWN);
    image.symbols[2].st_info = STT_OBJECT;
    assert_int_equal(kind_of(&image), GO_LABELS_UNKNOWN);
    image.sections[3].sh_name = 0; /* stripped */
    assert_int_equal(kind_of(&image), GO_LABELS_UNKNOWN);
    image.tls.p_memsz = image.tls.p_align = 8;
    assert_int_equal(place_of(&image), -8);
    image.tls.p_align = 3;
    assert_int_equal(kind_of(&image), GO_LABELS_UNKNOWN);
    image.tls.p_align = 8;
    image.header.e_type = ET_DYN; /* a library's variables are elsewhere */
    assert_int_equal(kind_of(&image), GO_LABELS_UNKNOWN);
    image.sections[5].sh_name = NAME_INTERPRETER;
    assert_int_equal(place_of(&image), -8);
    image.header.e_machine = EM_AARCH64;
    assert_int_equal(kind_of(&image), GO_LABELS_UNKNOWN);
}

static int print_layout(const char *path)
{
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    struct go_labels_file found = {0};
    if (elf_open(open(path, O_RDONLY | O_CLOEXEC), &f) < 0 || go_labels_read(f, &found) < 0)
        return 1;
    printf(
        "%s kind %d\nruntime.g.m %d\nruntime.g.labels %d\nruntime.m.curg %d\nruntime.g.sched %d\nruntime.gobuf.bp %d\nthread %lld\n",
        found.version, found.layout.kind, found.layout.g_m, found.layout.g_labels, found.layout.m_curg,
        found.stacks.g_sched, found.stacks.sched_bp, (long long)found.layout.thread_g);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_follows_the_version),
        cmocka_unit_test(test_waits_follow_the_version),
        cmocka_unit_test(test_damaged_build_info_is_refused),
        cmocka_unit_test(test_tls_offset_of_the_g_variable),
    };
    return argc > 1 ? print_layout(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
