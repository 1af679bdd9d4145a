/* elf.c on files built here byte by byte, and on this program: valid files are read, damaged ones are refused. */
#include "resolve/elf/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

/* One file with a code segment at 0x401000 (offset 0x1000), a build id note, and three sections. */
#define IMAGE_BYTES 0x3000
#define TEXT        "the quick brown fox jumps over the lazy dog, the quick brown fox jumps over the lazy dog"

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segments[3];
    char names[64];
    struct {
        Elf64_Nhdr header;
        char name[4];
        uint8_t id[20];
    } note;
    Elf64_Shdr sections[5];
};

enum { NAME_PLAIN = 1, NAME_ZLIB = 8, NAME_ZSTD = 14, NAME_NAMES = 20 };

static size_t put_compressed(uint8_t *at, uint32_t type)
{
    Elf64_Chdr header = {.ch_type = type, .ch_size = sizeof(TEXT), .ch_addralign = 1};
    memcpy(at, &header, sizeof(header));
    size_t room = 1024;
    if (type == 2) {
        room = ZSTD_compress(at + sizeof(header), room, TEXT, sizeof(TEXT), 3);
        assert_false(ZSTD_isError(room));
    } else {
        uLongf size = room;
        assert_int_equal(compress(at + sizeof(header), &size, (const uint8_t *)TEXT, sizeof(TEXT)), Z_OK);
        room = size;
    }
    return sizeof(header) + room;
}

static uint8_t *make_image(void)
{
    uint8_t *data = calloc(1, IMAGE_BYTES);
    assert_non_null(data);
    struct image *i = (struct image *)data;
    memcpy(i->header.e_ident, ELFMAG, SELFMAG);
    i->header.e_ident[EI_CLASS] = ELFCLASS64;
    i->header.e_ident[EI_DATA] = ELFDATA2LSB;
    i->header.e_ident[EI_VERSION] = EV_CURRENT;
    i->header.e_type = ET_DYN;
    i->header.e_machine = EM_X86_64;
    i->header.e_entry = 0x401010;
    i->header.e_phoff = offsetof(struct image, segments);
    i->header.e_phentsize = sizeof(Elf64_Phdr);
    i->header.e_phnum = 3;
    i->header.e_shoff = offsetof(struct image, sections);
    i->header.e_shentsize = sizeof(Elf64_Shdr);
    i->header.e_shnum = 5;
    i->header.e_shstrndx = 4;
    i->segments[0] = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_R, .p_offset = 0, .p_vaddr = 0x400000, .p_filesz = 0x1100, .p_memsz = 0x1100};
    i->segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                  .p_flags = PF_R | PF_X,
                                  .p_offset = 0x1000,
                                  .p_vaddr = 0x401000,
                                  .p_filesz = 0x1000,
                                  .p_memsz = 0x1800};
    i->segments[2] = (Elf64_Phdr){
        .p_type = PT_NOTE, .p_offset = offsetof(struct image, note), .p_filesz = sizeof(i->note), .p_align = 4};
    memcpy(i->names, "\0.plain\0.zlib\0.zstd\0.shstrtab", 30);
    i->note.header = (Elf64_Nhdr){.n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID};
    memcpy(i->note.name, "GNU", 4);
    memset(i->note.id, 0xAB, sizeof(i->note.id));
    i->sections[1] = (Elf64_Shdr){.sh_name = NAME_PLAIN,
                                  .sh_type = SHT_PROGBITS,
                                  .sh_addr = 0x401000,
                                  .sh_offset = 0x1000,
                                  .sh_size = sizeof(TEXT)};
    i->sections[2] =
        (Elf64_Shdr){.sh_name = NAME_ZLIB, .sh_type = SHT_PROGBITS, .sh_flags = SHF_COMPRESSED, .sh_offset = 0x2000};
    i->sections[3] =
        (Elf64_Shdr){.sh_name = NAME_ZSTD, .sh_type = SHT_PROGBITS, .sh_flags = SHF_COMPRESSED, .sh_offset = 0x2800};
    i->sections[4] = (Elf64_Shdr){
        .sh_name = NAME_NAMES, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct image, names), .sh_size = 30};
    memcpy(data + 0x1000, TEXT, sizeof(TEXT));
    i->sections[2].sh_size = put_compressed(data + 0x2000, ELFCOMPRESS_ZLIB);
    i->sections[3].sh_size = put_compressed(data + 0x2800, 2);
    return data;
}

/* Opens an image that `spoil` may have changed; frees the image if it is refused. */
static int open_image(uint8_t *data, size_t size, struct elf_file **ret)
{
    int r = elf_open_memory(data, size, ret);
    if (r < 0)
        free(data);
    return r;
}

static void test_headers_are_read(void **state)
{
    (void)state;
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    assert_int_equal(open_image(make_image(), IMAGE_BYTES, &f), 0);
    assert_int_equal(elf_machine(f), EM_X86_64);
    assert_int_equal(elf_type(f), ET_DYN);
    assert_int_equal(elf_entry(f), 0x401010);
    const struct elf_segment *segments;
    assert_int_equal(elf_segments(f, &segments), 2);
    assert_false(segments[0].executable);
    assert_true(segments[1].executable);
    const struct elf_section *sections;
    assert_int_equal(elf_sections(f, &sections), 5);
    assert_string_equal(sections[3].name, ".zstd");
    assert_null(elf_section(f, ".none"));
    uint8_t id[64];
    assert_int_equal(elf_build_id(f, id), 20);
    assert_int_equal(id[19], 0xAB);
}

static void test_offsets_and_addresses_convert(void **state)
{
    (void)state;
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    assert_int_equal(open_image(make_image(), IMAGE_BYTES, &f), 0);
    uint64_t v = 7;
    assert_int_equal(elf_vaddr_from_offset(f, 0x20, &v), 0);
    assert_int_equal(v, 0x400020);
    assert_int_equal(elf_vaddr_from_offset(f, 0x1010, &v), 0); /* in both segments: the one with code */
    assert_int_equal(v, 0x401010);
    assert_int_equal(elf_offset_from_vaddr(f, 0x401fff, &v), 0);
    assert_int_equal(v, 0x1fff);
    assert_int_equal(elf_offset_from_vaddr(f, 0x402000, &v), -ENOENT); /* memory without file contents */
    assert_int_equal(elf_vaddr_from_offset(f, 0x2000, &v), -ENOENT);
    assert_int_equal(v, 0x1fff);
}

/* A segment that wraps around the end of the file is empty. Found by fuzzing. */
static void test_segments_do_not_wrap(void **state)
{
    (void)state;
    uint8_t *data = make_image();
    ((struct image *)data)->segments[1].p_offset = 0xfffffffffffff000;
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    assert_int_equal(open_image(data, IMAGE_BYTES, &f), 0);
    uint64_t v = 7;
    assert_int_equal(elf_segments(f, &(const struct elf_segment *){0}), 1);
    assert_int_equal(elf_offset_from_vaddr(f, 0x401fff, &v), -ENOENT);
    assert_int_equal(v, 7);
}

static void test_sections_are_decompressed(void **state)
{
    (void)state;
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    assert_int_equal(open_image(make_image(), IMAGE_BYTES, &f), 0);
    static const char *const names[] = {".plain", ".zlib", ".zstd"};
    for (size_t i = 0; i < array_size(names); i++) {
        _cleanup_free_ void *data = NULL;
        size_t size = 0;
        assert_int_equal(elf_section_data(f, elf_section(f, names[i]), 1 << 20, &data, &size), 0);
        assert_int_equal(size, sizeof(TEXT));
        assert_memory_equal(data, TEXT, sizeof(TEXT));
        void *none = NULL;
        assert_int_equal(elf_section_data(f, elf_section(f, names[i]), sizeof(TEXT) - 1, &none, &size), -EFBIG);
        assert_null(none);
    }
}

static void test_damaged_compression_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {".zlib", ".zstd"};
    for (size_t i = 0; i < array_size(names); i++) {
        for (int damage = 0; damage < 4; damage++) {
            uint8_t *data = make_image();
            struct image *image = (struct image *)data;
            uint8_t *at = data + image->sections[2 + i].sh_offset;
            Elf64_Chdr *header = (Elf64_Chdr *)at;
            if (damage == 0)
                header->ch_size += 1; /* decompresses to less than the header says */
            else if (damage == 1)
                header->ch_size -= 1; /* decompresses to more */
            else if (damage == 2)
                image->sections[2 + i].sh_size -= 6;
            else
                header->ch_type = 99;
            _cleanup_(elf_file_freep) struct elf_file *f = NULL;
            assert_int_equal(open_image(data, IMAGE_BYTES, &f), 0);
            void *out = NULL;
            size_t size;
            assert_int_equal(elf_section_data(f, elf_section(f, names[i]), 1 << 20, &out, &size), -ENOEXEC);
            assert_null(out);
        }
    }
}

static void test_other_files_are_refused(void **state)
{
    (void)state;
    for (int damage = 0; damage < 10; damage++) {
        uint8_t *data = make_image();
        struct image *i = (struct image *)data;
        size_t size = IMAGE_BYTES;
        switch (damage) {
        case 0:
            data[0] = 'X';
            break;
        case 1:
            i->header.e_ident[EI_CLASS] = ELFCLASS32;
            break;
        case 2:
            i->header.e_ident[EI_DATA] = ELFDATA2MSB;
            break;
        case 3:
            i->header.e_machine = EM_386;
            break;
        case 4:
            i->header.e_phoff = UINT64_MAX - 8;
            break;
        case 5:
            i->header.e_shoff = IMAGE_BYTES - 8;
            break;
        case 6:
            i->header.e_phentsize = 8;
            break;
        case 7:
            i->header.e_shnum = 0;
            i->sections[0].sh_size = UINT64_MAX;
            break;
        case 8:
            i->sections[4].sh_size = UINT64_MAX;
            break;
        case 9:
            size = sizeof(Elf64_Ehdr) - 1;
            break;
        }
        struct elf_file *f = NULL;
        assert_int_equal(open_image(data, size, &f), -ENOEXEC);
        assert_null(f);
    }
}

static void test_wrong_header_values_affect_only_their_section(void **state)
{
    (void)state;
    uint8_t *data = make_image();
    struct image *i = (struct image *)data;
    i->sections[1].sh_size = UINT64_MAX - 4;
    i->sections[2].sh_name = UINT32_MAX;
    i->note.header.n_descsz = UINT32_MAX;
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    assert_int_equal(open_image(data, IMAGE_BYTES, &f), 0);
    void *out = NULL;
    size_t size;
    assert_int_equal(elf_section_data(f, elf_section(f, ".plain"), SIZE_MAX, &out, &size), -ENOEXEC);
    assert_int_equal(elf_section_data(f, elf_section(f, ".zstd"), 1 << 20, &out, &size), 0);
    free(out);
    const struct elf_section *sections;
    elf_sections(f, &sections);
    assert_string_equal(sections[2].name, "");
    uint8_t id[64];
    assert_int_equal(elf_build_id(f, id), 0);
    char byte;
    assert_int_equal(elf_read(f, IMAGE_BYTES - 1, &byte, 1), 0);
    assert_int_equal(elf_read(f, IMAGE_BYTES, &byte, 1), -EIO);
    assert_int_equal(elf_read(f, UINT64_MAX, &byte, 1), -EIO);
}

/* A file that shrinks after it was opened yields an error, not a signal. */
static void test_file_truncated_after_open(void **state)
{
    (void)state;
    _cleanup_free_ uint8_t *data = make_image();
    int fd = memfd_create("image", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, IMAGE_BYTES), IMAGE_BYTES);
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    assert_int_equal(elf_open(fd, &f), 0);
    assert_int_equal(ftruncate(fd, 0x800), 0);
    void *out = NULL;
    size_t size;
    assert_int_equal(elf_section_data(f, elf_section(f, ".plain"), 1 << 20, &out, &size), -ENOEXEC);
}

static void test_descriptor_is_not_taken_on_failure(void **state)
{
    (void)state;
    _cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct elf_file *f = NULL;
    assert_int_equal(elf_open(fd, &f), -ENOEXEC);
    assert_true(fcntl(fd, F_GETFD) >= 0);
}

static void test_own_program_is_read(void **state)
{
    (void)state;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    assert_int_equal(elf_open(fd, &f), 0);
    assert_non_null(elf_section(f, ".text"));
    assert_non_null(elf_eh_frame_header(f));
    uint64_t offset, vaddr;
    assert_int_equal(elf_offset_from_vaddr(f, elf_entry(f), &offset), 0);
    assert_int_equal(elf_vaddr_from_offset(f, offset, &vaddr), 0);
    assert_int_equal(vaddr, elf_entry(f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_are_read),
        cmocka_unit_test(test_offsets_and_addresses_convert),
        cmocka_unit_test(test_segments_do_not_wrap),
        cmocka_unit_test(test_sections_are_decompressed),
        cmocka_unit_test(test_damaged_compression_is_refused),
        cmocka_unit_test(test_other_files_are_refused),
        cmocka_unit_test(test_wrong_header_values_affect_only_their_section),
        cmocka_unit_test(test_file_truncated_after_open),
        cmocka_unit_test(test_descriptor_is_not_taken_on_failure),
        cmocka_unit_test(test_own_program_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
