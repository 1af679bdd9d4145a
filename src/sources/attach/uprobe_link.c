/* Uprobes by perf events or by links of type uprobe_multi; see uprobe_link.h. */
#include "sources/attach/uprobe_link.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

struct uprobe_link {
    struct bpf_link *by_perf_event; /* NULL: by the link `fd` */
    int fd;
};

/* ---- uprobe_multi, which the headers and the libbpf of Debian 12 do not have ---- */

#define TRACE_UPROBE_MULTI  48 /* enum bpf_attach_type */
#define UPROBE_MULTI_RETURN 1

/* union bpf_attr of BPF_LINK_CREATE. */
struct link_attr {
    uint32_t program, target, attach_type, flags;
    uint64_t path, offsets, semaphore_offsets, cookies; /* pointers */
    uint32_t count, multi_flags, pid, reserved;
};

/* Kernels have uprobe_multi since 6.6; but of one process, some before 6.10 see the main thread only. */
static bool needs_multi(void)
{
    struct utsname name;
    unsigned major = 0, minor = 0;
    return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 16));
}

static bool is_uprobe(const struct bpf_program *program)
{
    const char *section = bpf_program__section_name(program);
    return strcmp(section, "uprobe") == 0 || strcmp(section, "uretprobe") == 0;
}

void uprobe_links_prepare(struct bpf_object *object)
{
    struct bpf_program *program;
    if (!needs_multi())
        return;
    bpf_object__for_each_program(program, object) if (is_uprobe(program))
        bpf_program__set_expected_attach_type(program, TRACE_UPROBE_MULTI);
}

static int attach_multi(struct bpf_program *program, const char *path, const struct uprobe_place *place)
{
    const struct link_attr attr = {
        .program = (uint32_t)bpf_program__fd(program),
        .attach_type = TRACE_UPROBE_MULTI,
        .path = (uint64_t)(uintptr_t)path,
        .offsets = (uint64_t)(uintptr_t)&place->file_offset,
        .semaphore_offsets = place->semaphore_offset ? (uint64_t)(uintptr_t)&place->semaphore_offset : 0,
        .count = 1,
        .multi_flags = place->is_return ? UPROBE_MULTI_RETURN : 0,
        .pid = place->pid > 0 ? (uint32_t)place->pid : 0,
    };
    const long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
    return fd < 0 ? -errno : (int)fd;
}

/* ---- either way ---- */

static int attach(struct uprobe_link *l, struct bpf_program *program, const char *path,
                  const struct uprobe_place *place)
{
    LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = place->semaphore_offset, .retprobe = place->is_return);
    if (bpf_program__expected_attach_type(program) == TRACE_UPROBE_MULTI) {
        l->fd = attach_multi(program, path, place);
        return l->fd < 0 ? l->fd : 0;
    }
    l->by_perf_event = bpf_program__attach_uprobe_opts(program, place->pid, path, place->file_offset, &options);
    return l->by_perf_event ? 0 : -errno;
}

int uprobe_link_new(struct bpf_program *program, const struct uprobe_place *place, struct uprobe_link **ret)
{
    _cleanup_(uprobe_link_freep) struct uprobe_link *l = calloc(1, sizeof(*l));
    char path[40];
    if (!l)
        return -ENOMEM;
    l->fd = -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", place->fd);
    int r = attach(l, program, path, place);
    if (r == 0)
        *ret = take_ptr(l);
    return r;
}

void uprobe_link_free(struct uprobe_link *l)
{
    if (!l)
        return;
    bpf_link__destroy(l->by_perf_event);
    closep(&l->fd);
    free(l);
}
