/* cuda_sites.c on libraries built here: which functions are of which kind, and a kind of which one function cannot be
 * probed is left out. With a file's path as argument it prints the sites in that file. */
#include "resolve/elf/cuda_sites.h"

#include "base/cleanup.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define BASE          0x10000
#define FUNCTION      16 /* bytes a function */
#define FUNCTIONS_MAX 80

struct image {
    Elf64_Ehdr header;
    Elf64_Phdr load;
    Elf64_Shdr sections[3];
    char names[32], texts[FUNCTIONS_MAX * 32];
    Elf64_Sym symbols[1 + FUNCTIONS_MAX];
    uint8_t code[FUNCTIONS_MAX][FUNCTION];
};

static struct image *image;
static size_t function_count, text_bytes;

static int begin_image(void **state)
{
    (void)state;
    image = calloc(1, sizeof(*image));
    assert_non_null(image);
    image->header = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                                 .e_type = ET_DYN,
                                 .e_machine = EM_X86_64,
                                 .e_phoff = offsetof(struct image, load),
                                 .e_phentsize = sizeof(Elf64_Phdr),
                                 .e_phnum = 1,
                                 .e_shoff = offsetof(struct image, sections),
                                 .e_shentsize = sizeof(Elf64_Shdr),
                                 .e_shnum = 3,
                                 .e_shstrndx = 2};
    image->load = (Elf64_Phdr){.p_type = PT_LOAD,
                               .p_flags = PF_R | PF_X,
                               .p_vaddr = BASE,
                               .p_filesz = sizeof(*image),
                               .p_memsz = sizeof(*image)};
    memcpy(image->names, "\0.dynsym\0.strtab", sizeof("\0.dynsym\0.strtab"));
    image->sections[1] = (Elf64_Shdr){.sh_name = 1,
                                      .sh_type = SHT_DYNSYM,
                                      .sh_offset = offsetof(struct image, symbols),
                                      .sh_size = sizeof(image->symbols),
                                      .sh_link = 2,
                                      .sh_entsize = sizeof(Elf64_Sym)};
    image->sections[2] = (Elf64_Shdr){.sh_name = 9,
                                      .sh_type = SHT_STRTAB,
                                      .sh_offset = offsetof(struct image, names),
                                      .sh_size = sizeof(image->names) + sizeof(image->texts)};
    function_count = text_bytes = 0;
    return 0;
}

static int end_image(void **state)
{
    (void)state;
    free(image);
    return 0;
}

/* Returns the file offset of its code. */
static uint64_t add_code(const char *name, const char *code, size_t size)
{
    const size_t n = function_count++;
    const uint64_t offset = offsetof(struct image, code) + n * FUNCTION;
    assert_true(n < FUNCTIONS_MAX && size <= FUNCTION);
    memcpy(image->code[n], code, size);
    image->symbols[1 + n] = (Elf64_Sym){.st_name = (uint32_t)(sizeof(image->names) + text_bytes),
                                        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                        .st_shndx = 1,
                                        .st_value = BASE + offset,
                                        .st_size = FUNCTION};
    text_bytes += (size_t)snprintf(image->texts + text_bytes, sizeof(image->texts) - text_bytes, "%s", name) + 1;
    assert_true(text_bytes <= sizeof(image->texts));
    return offset;
}

#define PUSH         "\x55\xc3"                 /* push %rbp; ret */
#define ENDBR        "\xf3\x0f\x1e\xfa\x55\xc3" /* endbr64; push %rbp; ret */
#define MOVE         "\x48\x89\xfa\x55\xc3"     /* mov %rdi,%rdx; push %rbp; ret */
#define ADD(name, c) add_code(name, c, sizeof(c) - 1)

static int find(struct cuda_sites *ret)
{
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    const int fd = memfd_create("libcuda", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, image, sizeof(*image)), sizeof(*image));
    assert_int_equal(elf_open(fd, &f), 0);
    return cuda_sites_find(f, ret);
}

static void test_all_variants_of_a_kind_are_found(void **state)
{
    struct cuda_sites s;
    (void)state;
    const uint64_t plain = ADD("cuLaunchKernel", PUSH), variant = ADD("cuLaunchKernelEx_ptsz", ENDBR),
                   graph = ADD("cuGraphLaunch", PUSH), copy = ADD("cuMemcpyDtoHAsync_v2_ptsz", PUSH),
                   allocation = ADD("cuMemAllocAsync", PUSH), wait = ADD("cuEventSynchronize", PUSH);
    ADD("cuInit", MOVE);
    ADD("cuLaunchHostFunc", MOVE);
    ADD("cuMemAllocHost_v2", MOVE);
    image->symbols[1 + function_count] = image->symbols[1]; /* an alias is the same call */
    function_count++;
    assert_int_equal(find(&s), 0);
    assert_int_equal(s.calls[CUDA_CALL_LAUNCH].count, 2);
    assert_int_equal(s.calls[CUDA_CALL_LAUNCH].file_offsets[0], plain);
    assert_int_equal(s.calls[CUDA_CALL_LAUNCH].file_offsets[1], variant + 4); /* behind endbr64 */
    const struct {
        enum cuda_call call;
        uint64_t offset;
    } others[] = {{CUDA_CALL_GRAPH_LAUNCH, graph},
                  {CUDA_CALL_COPY, copy},
                  {CUDA_CALL_ALLOCATION, allocation},
                  {CUDA_CALL_SYNCHRONIZE, wait}};
    for (size_t i = 0; i < array_size(others); i++) {
        assert_int_equal(s.calls[others[i].call].count, 1);
        assert_int_equal(s.calls[others[i].call].file_offsets[0], others[i].offset);
        assert_string_equal(s.calls[others[i].call].declined, "");
    }
}

static void test_a_kind_with_a_costly_function_is_left_out(void **state)
{
    struct cuda_sites s;
    (void)state;
    ADD("cuMemcpyHtoD_v2", PUSH);
    ADD("cuMemcpyDtoH_v2", MOVE);
    ADD("cuLaunchKernel", PUSH);
    assert_int_equal(find(&s), 0);
    assert_int_equal(s.calls[CUDA_CALL_COPY].count, 0);
    assert_string_equal(s.calls[CUDA_CALL_COPY].declined, "cuMemcpyDtoH_v2");
    assert_int_equal(s.calls[CUDA_CALL_LAUNCH].count, 1);
}

static void test_a_kind_with_too_many_functions_is_left_out(void **state)
{
    struct cuda_sites s;
    char name[32];
    (void)state;
    for (int i = 0; i < CUDA_SITES_MAX + 1; i++) {
        snprintf(name, sizeof(name), "cuMemcpy%d", i);
        if (i == CUDA_SITES_MAX) {
            assert_int_equal(find(&s), 0);
            assert_int_equal(s.calls[CUDA_CALL_COPY].count, CUDA_SITES_MAX);
        }
        ADD(name, PUSH);
    }
    assert_int_equal(find(&s), 0);
    assert_int_equal(s.calls[CUDA_CALL_COPY].count, 0);
    assert_string_equal(s.calls[CUDA_CALL_COPY].declined, name);
}

static void test_other_machines_and_libraries(void **state)
{
    struct cuda_sites s;
    (void)state;
    assert_int_equal(find(&s), -ENOENT);
    ADD("cuInit", PUSH);
    assert_int_equal(find(&s), -ENOENT);
    ADD("cuGraphLaunch", PUSH);
    image->header.e_machine = EM_AARCH64;
    assert_int_equal(find(&s), 0);
    assert_string_equal(s.calls[CUDA_CALL_GRAPH_LAUNCH].declined, "cuGraphLaunch");
}

static int print_sites(const char *path)
{
    _cleanup_(elf_file_freep) struct elf_file *f = NULL;
    struct cuda_sites s;
    int r = elf_open(open(path, O_RDONLY | O_CLOEXEC), &f);
    r = r < 0 ? r : cuda_sites_find(f, &s);
    for (size_t i = 0; r == 0 && i < CUDA_CALLS; i++)
        printf("kind %zu: %zu sites%s%s\n", i, s.calls[i].count, s.calls[i].declined[0] ? ", declined for " : "",
               s.calls[i].declined);
    return r < 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_variants_of_a_kind_are_found, begin_image, end_image),
        cmocka_unit_test_setup_teardown(test_a_kind_with_a_costly_function_is_left_out, begin_image, end_image),
        cmocka_unit_test_setup_teardown(test_a_kind_with_too_many_functions_is_left_out, begin_image, end_image),
        cmocka_unit_test_setup_teardown(test_other_machines_and_libraries, begin_image, end_image),
    };
    return argc > 1 ? print_sites(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
