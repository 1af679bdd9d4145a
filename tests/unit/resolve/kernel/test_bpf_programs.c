/* BPF programs as places in kernel code: a program built here, with two source lines of its own, is found by name and
 * line while it is loaded, and its removal is noticed. Needs permission to load programs. */
#include "resolve/kernel/bpf_programs.h"
#include "resolve/kernel/kernel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FUNCTION "a_function_whose_name_is_longer_than_fifteen"
#define FILE_OF  "/src/of/the/test.bpf.c"

static const struct bpf_insn instructions[] = {
    {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
    {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
    {.code = BPF_JMP | BPF_EXIT},
};

/* A loaded program, or -errno. */
static int load(void)
{
    struct btf *btf = btf__new_empty();
    assert_non_null(btf);
    int type = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
    int prototype = btf__add_func_proto(btf, type);
    int function = btf__add_func(btf, FUNCTION, BTF_FUNC_STATIC, prototype);
    int file = btf__add_str(btf, FILE_OF), source = btf__add_str(btf, "return 1;");
    assert_true(function > 0 && file > 0 && source > 0);
    __u32 size;
    const void *data = btf__raw_data(btf, &size);
    int btf_fd = bpf_btf_load(data, size, NULL);
    btf__free(btf);
    if (btf_fd < 0)
        return btf_fd;
    struct bpf_func_info functions[] = {{.insn_off = 0, .type_id = function}};
    struct bpf_line_info lines[] = {
        {.insn_off = 0, .file_name_off = file, .line_off = source, .line_col = 41 << 10 | 5},
        {.insn_off = 2, .file_name_off = file, .line_off = source, .line_col = 43 << 10 | 1},
    };
    LIBBPF_OPTS(bpf_prog_load_opts, options, .prog_btf_fd = btf_fd, .func_info = functions, .func_info_cnt = 1,
                .func_info_rec_size = sizeof(functions[0]), .line_info = lines, .line_info_cnt = 2,
                .line_info_rec_size = sizeof(lines[0]));
    int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "a_function_whos", "GPL", instructions, 3, &options);
    close(btf_fd);
    return fd;
}

/* Its address after JIT compilation, and its tag as in its name. */
static uint64_t place_of(int fd, uint32_t *ret_size, char tag[2 * BPF_TAG_SIZE + 1])
{
    uint64_t start = 0;
    uint32_t length = 0;
    struct bpf_prog_info info = {.nr_jited_ksyms = 1,
                                 .jited_ksyms = (uintptr_t)&start,
                                 .nr_jited_func_lens = 1,
                                 .jited_func_lens = (uintptr_t)&length};
    uint32_t size = sizeof(info);
    assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &size), 0);
    for (int i = 0; i < BPF_TAG_SIZE; i++)
        snprintf(tag + 2 * i, 3, "%02x", info.tag[i]);
    *ret_size = length;
    return start;
}

static int load_or_skip(void)
{
    int fd = load();
    if (fd == -EPERM || fd == -EACCES || fd == -ENOSYS) {
        print_message("skipped: no right to load BPF programs\n");
        skip();
    }
    assert_true(fd >= 0);
    return fd;
}

static void test_program_is_found_by_name_and_line(void **state)
{
    (void)state;
    struct bpf_programs *p = NULL;
    assert_int_equal(bpf_programs_new(&p), 0);
    bpf_programs_refresh(p);
    int fd = load_or_skip();
    uint32_t size;
    char tag[2 * BPF_TAG_SIZE + 1], name[128];
    uint64_t start = place_of(fd, &size, tag);
    if (!start) {
        print_message("skipped: the kernel does not report addresses of BPF programs, or does not JIT-compile them\n");
        skip();
    }
    struct bpf_place place;
    assert_true(bpf_programs_refresh(p));
    assert_true(bpf_programs_find(p, start, &place));
    snprintf(name, sizeof(name), "bpf_prog_%s_" FUNCTION, tag);
    assert_string_equal(place.function, name);
    assert_string_equal(place.file, FILE_OF);
    assert_int_equal(place.line, 41);
    assert_true(bpf_programs_find(p, start + size - 1, &place));
    assert_int_equal(place.line, 43);
    assert_false(bpf_programs_find(p, start + size, &place) && !strcmp(place.function, name));
    assert_false(bpf_programs_refresh(p)); /* nothing new */
    /* names stay known after the program is unloaded, for samples in flight */
    close(fd);
    bpf_programs_refresh(p);
    assert_true(bpf_programs_find(p, start, &place));
    assert_string_equal(place.function, name);
    bpf_programs_free(p);
}

static void test_kernel_symbols_find_new_programs(void **state)
{
    (void)state;
    struct kernel_symbols *k = NULL;
    int r = kernel_symbols_new(NULL, &k);
    if (r == -EPERM || r == -ENOENT || r == -EACCES) {
        print_message("skipped: no right to read kernel addresses, or no kallsyms\n");
        skip();
    }
    assert_int_equal(r, 0);
    struct frame frame;
    kernel_symbols_find(k, 0xffffffffffff0000, &frame); /* everything before has been read */
    int fd = load_or_skip();
    uint32_t size;
    char tag[2 * BPF_TAG_SIZE + 1], name[128];
    uint64_t start = place_of(fd, &size, tag);
    if (start) {
        kernel_symbols_expire(k);
        for (int round = 0; round < 2; round++) {
            assert_true(kernel_symbols_find(k, start + size - 1, &frame));
            snprintf(name, sizeof(name), "bpf_prog_%s_" FUNCTION, tag);
            assert_string_equal(frame.function, name);
            assert_string_equal(frame.file, FILE_OF);
            assert_int_equal(frame.line, 43);
            assert_string_equal(frame.mapping, "[bpf]");
            assert_int_equal(frame.kind, FRAME_BPF);
        }
    }
    close(fd);
    kernel_symbols_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_is_found_by_name_and_line),
        cmocka_unit_test(test_kernel_symbols_find_new_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
