/* Finds the functions of system calls and attaches to them; see io_functions.h. The frequent calls have a pair of
 * programs each (fentry, fexit: probes/io.bpf.c). Each of those takes the kernel a while to attach, so that one pair
 * serves all others (kprobe.multi). */
#include "sources/io/io_functions.h"

#include "sources/attach/missed_runs.h"
#include "sources/io/io_skeleton.h"

#include "base/cleanup.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 64

/* As the kernel defines them, without their prefix. Those that an architecture or kernel lacks are skipped. */
static const char *const names[] = {
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "sendfile64",
    "splice",
    "copy_file_range",
    "openat2",
    "open_by_handle_at",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "syncfs",
    "fallocate",
    "truncate",
    "ftruncate",
    "statx",
    "getdents64",
    "mkdirat",
    "unlinkat",
    "renameat",
    "renameat2",
    "linkat",
    "symlinkat",
    "open",
    "creat",
    "newstat",
    "newlstat",
    "getdents",
    "mkdir",
    "rmdir",
    "unlink",
    "rename",
    "link",
    "symlink",
    "io_setup",
    "io_submit",
    "io_getevents",
    "io_pgetevents",
    "io_destroy",
};

/* Functions of 32-bit programs: calls that have their own programs in 64-bit form, and calls that exist only in 32-bit
 * form. */
static const char *const names_32[] = {
    "read",           "write",           "pread64",
    "pwrite64",       "readv",           "writev",
    "openat",         "close",           "newfstat",
    "newfstatat",     "sendfile",        "ia32_pread64",
    "ia32_pwrite64",  "ia32_truncate64", "ia32_ftruncate64",
    "ia32_fallocate", "ia32_stat64",     "ia32_lstat64",
    "ia32_fstat64",   "ia32_fstatat64",  "ia32_sync_file_range",
};

#if defined(__x86_64__)
#define FIRST_FUNCTION "__x64_sys_read"
#elif defined(__aarch64__)
#define FIRST_FUNCTION "__arm64_sys_read"
#endif

static const struct prefix {
    const char *text;
    bool is_32_bit;
} prefixes[] = {
#if defined(__x86_64__)
    {"__x64_sys_", false},
    {"__ia32_sys_", true},
    {"__ia32_compat_sys_", true},
#elif defined(__aarch64__)
    {"__arm64_sys_", false},
#endif
};

#define FUNCTIONS_MAX ((array_size(names) + array_size(names_32)) * array_size(prefixes))

struct functions {
    char names[FUNCTIONS_MAX][NAME_BYTES];
    size_t count;
};

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

static bool is_function_of_call(const char *symbol)
{
    for (size_t i = 0; i < array_size(prefixes); i++) {
        const size_t length = strlen(prefixes[i].text);
        if (strncmp(symbol, prefixes[i].text, length) == 0 &&
            (is_one_of(symbol + length, names, array_size(names)) ||
             (prefixes[i].is_32_bit && is_one_of(symbol + length, names_32, array_size(names_32)))))
            return true;
    }
    return false;
}

/* All that /proc/kallsyms lists. */
static int find_functions(struct functions *ret)
{
    _cleanup_fclose_ FILE *file = fopen("/proc/kallsyms", "re");
    char line[512], symbol[NAME_BYTES];
    if (!file)
        return -errno;
    ret->count = 0;
    while (fgets(line, sizeof(line), file) && ret->count < FUNCTIONS_MAX)
        if (strstr(line, "_sys_") && sscanf(line, "%*x %*c %63s", symbol) == 1 && is_function_of_call(symbol))
            memcpy(ret->names[ret->count++], symbol, NAME_BYTES);
    return ret->count ? 0 : -ENOENT;
}

static int attach_to_functions(const struct bpf_program *program, const struct functions *f, bool at_exit,
                               struct bpf_link **ret)
{
    const char *symbols[FUNCTIONS_MAX];
    for (size_t i = 0; i < f->count; i++)
        symbols[i] = f->names[i];
    LIBBPF_OPTS(bpf_kprobe_multi_opts, options, .syms = symbols, .cnt = f->count, .retprobe = at_exit);
    *ret = bpf_program__attach_kprobe_multi_opts(program, NULL, &options);
    return *ret ? 0 : -errno;
}

int io_functions_try(void)
{
    static const struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
                                              {.code = BPF_JMP | BPF_EXIT}};
    const char *first = FIRST_FUNCTION;
    LIBBPF_OPTS(bpf_prog_load_opts, load, .expected_attach_type = BPF_TRACE_KPROBE_MULTI);
    LIBBPF_OPTS(bpf_link_create_opts, link, .kprobe_multi.syms = &first, .kprobe_multi.cnt = 1);
    _cleanup_close_ int program =
        bpf_prog_load(BPF_PROG_TYPE_KPROBE, "io_try", "GPL", nothing, array_size(nothing), &load);
    if (program < 0)
        return program;
    _cleanup_close_ int attached = bpf_link_create(program, 0, BPF_TRACE_KPROBE_MULTI, &link);
    return attached < 0 ? attached : 0;
}

static bool is_in_section(const struct bpf_program *program, const char *beginning)
{
    return strncmp(bpf_program__section_name(program), beginning, strlen(beginning)) == 0;
}

static bool is_at_exit(const struct bpf_program *program)
{
    return is_in_section(program, "fexit/") || is_in_section(program, "kretprobe.multi");
}

static bool is_at_function(const struct bpf_program *program)
{
    return is_at_exit(program) || is_in_section(program, "fentry/") || is_in_section(program, "kprobe.multi");
}

void io_functions_choose(struct io_bpf *bpf, bool is_used)
{
    struct bpf_program *program;
    (void)bpf_map__set_autocreate(bpf->maps.frequent_enter, is_used);
    (void)bpf_map__set_autocreate(bpf->maps.frequent_exit, is_used);
    bpf_object__for_each_program(program, bpf->obj)
    {
        if (is_at_function(program))
            bpf_program__set_autoload(program, is_used);
    }
}

/* The programs of one frequent call work for all. */
static int fill_frequent(const struct bpf_map *map, const struct bpf_program *program)
{
    const uint32_t first = 0;
    const int fd = bpf_program__fd(program);
    return bpf_map_update_elem(bpf_map__fd(map), &first, &fd, BPF_ANY) < 0 ? -errno : 0;
}

int io_functions_attach(struct io_bpf *bpf)
{
    struct functions found;
    int r = fill_frequent(bpf->maps.frequent_enter, bpf->progs.io_read_enter)
                ?: fill_frequent(bpf->maps.frequent_exit, bpf->progs.io_read_exit)
                       ?: find_functions(&found);
    if (r < 0)
        return r;
    r = attach_to_functions(bpf->progs.io_function_exit, &found, true, &bpf->links.io_function_exit);
    if (r < 0)
        return r;
    return attach_to_functions(bpf->progs.io_function_enter, &found, false, &bpf->links.io_function_enter);
}

uint64_t io_functions_missed(struct io_bpf *bpf)
{
    struct bpf_program *program;
    uint64_t sum = 0;
    bpf_object__for_each_program(program, bpf->obj)
    {
        if (!is_at_exit(program))
            sum += missed_runs_of(program);
    }
    return sum;
}
