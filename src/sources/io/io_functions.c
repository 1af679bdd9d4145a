/* Clones of the programs for functions of system calls; see io_functions.h. */
#include "sources/io/io_functions.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 64

/* As the kernel defines them; those that an architecture lacks are skipped. */
static const char *const names[] = {
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "sendfile64",
    "splice",
    "copy_file_range",
    "openat",
    "openat2",
    "close",
    "fsync",
    "open_by_handle_at",
    "fdatasync",
    "syncfs",
    "fallocate",
    "sync_file_range",
    "truncate",
    "ftruncate",
    "newfstat",
    "statx",
    "getdents64",
    "mkdirat",
    "unlinkat",
    "renameat",
    "renameat2",
    "linkat",
    "symlinkat",
    "newfstatat",
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
    "sendfile",
    "ia32_pread64",
    "ia32_pwrite64",
    "ia32_stat64",
    "ia32_lstat64",
    "ia32_fstat64",
    "ia32_fstatat64",
    "ia32_truncate64",
    "ia32_ftruncate64",
    "ia32_fallocate",
    "ia32_sync_file_range",
};

/* The first is that of this architecture's own programs, the rest of 32-bit ones. */
static const char *const prefixes[] = {
#if defined(__x86_64__)
    "__x64_sys_",
    "__ia32_sys_",
    "__ia32_compat_sys_",
#elif defined(__aarch64__)
    "__arm64_sys_",
#endif
};

#define NAMES    (sizeof(names) / sizeof(names[0]))
#define PREFIXES (sizeof(prefixes) / sizeof(prefixes[0]))

struct io_functions {
    int programs[2 * NAMES * PREFIXES], links[2 * NAMES * PREFIXES];
    size_t count;
};

void io_functions_free(struct io_functions *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++) {
        close(f->links[i]);
        close(f->programs[i]);
    }
    free(f);
}

static int find_function(const struct btf *kernel, size_t prefix, size_t name)
{
    char function[NAME_BYTES];
    snprintf(function, sizeof(function), "%s%s", prefixes[prefix], names[name]);
    return btf__find_by_name_kind(kernel, function, BTF_KIND_FUNC);
}

const char *io_functions_first(const struct btf *kernel)
{
#if defined(__x86_64__)
    return find_function(kernel, 0, 0) >= 0 ? "__x64_sys_read" : NULL;
#elif defined(__aarch64__)
    return find_function(kernel, 0, 0) >= 0 ? "__arm64_sys_read" : NULL;
#endif
}

/* One copy at one function. */
static int attach_copy(struct io_functions *f, const struct bpf_program *program, enum bpf_attach_type type,
                       uint32_t function)
{
    LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = type, .attach_btf_id = function);
    const int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, bpf_program__name(program), "GPL", bpf_program__insns(program),
                                 bpf_program__insn_cnt(program), &options);
    if (fd < 0)
        return fd;
    const int link = bpf_raw_tracepoint_open(NULL, fd);
    if (link < 0) {
        close(fd);
        return link;
    }
    f->programs[f->count] = fd;
    f->links[f->count++] = link;
    return 0;
}

int io_functions_attach(const struct btf *kernel, const struct bpf_program *enter, const struct bpf_program *exit,
                        struct io_functions **ret)
{
    _cleanup_(io_functions_freep) struct io_functions *f = calloc(1, sizeof(*f));
    if (!f)
        return -ENOMEM;
    for (size_t prefix = 0; prefix < PREFIXES; prefix++) {
        for (size_t name = prefix == 0; name < NAMES; name++) {
            const int function = find_function(kernel, prefix, name);
            if (function < 0)
                continue;
            int r = attach_copy(f, enter, BPF_TRACE_FENTRY, (uint32_t)function);
            if (r == 0)
                r = attach_copy(f, exit, BPF_TRACE_FEXIT, (uint32_t)function);
            if (r < 0 && prefix == 0)
                return r;
        }
    }
    *ret = take_ptr(f);
    return 0;
}

uint64_t io_functions_missed(const struct io_functions *f)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct bpf_prog_info info = {0};
        uint32_t size = sizeof(info);
        if (bpf_obj_get_info_by_fd(f->programs[i], &info, &size) == 0)
            sum += info.recursion_misses;
    }
    return sum;
}
