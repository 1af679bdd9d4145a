/* Pages of files that programs reach through mmap, when they are mapped. Part of io.bpf.c.
 *
 * A fault maps its page, and those around it that are in memory: they may never be touched. The tracepoints do not pass
 * the mount through which the program mapped the file. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/io/io_file.bpf.h"

/* Set before loading. */
const volatile __u32 page_bytes = 4096;

#define IO_MOUNTS_TRIED 32

struct mount_choice {
    const void *root, *namespace; /* of the whole file system, of the current task */
    const struct mount *best;     /* shows the whole file system in that namespace, or `whole`, or any mount */
    const struct mount *whole;    /* shows the whole file system in another namespace */
};

/* Whether the best mount is found. */
static __always_inline bool try_mount(struct mount_choice *c, const struct mount *mount)
{
    if (!c->best)
        c->best = mount;
    if (BPF_CORE_READ(mount, mnt.mnt_root) != c->root)
        return false;
    if (!c->whole)
        c->best = c->whole = mount;
    if (BPF_CORE_READ(mount, mnt_ns) != c->namespace)
        return false;
    c->best = mount;
    return true;
}

static __always_inline void try_mounts(struct mount_choice *c, const struct super_block *sb)
{
    const struct mount *at = BPF_CORE_READ(sb, s_mounts);
    for (int i = 0; i < IO_MOUNTS_TRIED && at && !try_mount(c, at); i++)
        at = BPF_CORE_READ(at, mnt_next_for_sb);
}

/* Before 6.17. A loop of its own: the offsets do not exist in other kernels. */
static __always_inline void try_listed_mounts(struct mount_choice *c, const void *sb)
{
    const void *head = sb + bpf_core_field_offset(struct super_block___list, s_mounts);
    const void *at = BPF_CORE_READ((const struct list_head *)head, next);
    for (int i = 0; i < IO_MOUNTS_TRIED && at && at != head; i++) {
        if (try_mount(c, at - bpf_core_field_offset(struct mount___list, mnt_instance)))
            break;
        at = BPF_CORE_READ((const struct list_head *)at, next);
    }
}

static __always_inline const struct mount *mount_of_path(const struct path *path, const void *sb)
{
    const void *mnt = DIRECT_READ(struct path, path, mnt);
    if (!mnt || DIRECT_READ(struct vfsmount, mnt, mnt_sb) != sb)
        return NULL;
    return mnt - bpf_core_field_offset(struct mount, mnt);
}

/* A mount of the file system that probably shows the file to the current task: the mount of its root or working
 * directory, else one that shows the whole file system. NULL: no such mount exists. */
static __noinline const struct mount *likely_mount(const struct super_block *sb)
{
    const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
    const void *fs = BPF_CORE_READ(task, fs);
    const struct mount *found = fs ? mount_of_path(fs + bpf_core_field_offset(struct fs_struct, root), sb) : NULL;
    if (fs && !found)
        found = mount_of_path(fs + bpf_core_field_offset(struct fs_struct, pwd), sb);
    if (found)
        return found;
    struct mount_choice c = {.root = BPF_CORE_READ(sb, s_root), .namespace = BPF_CORE_READ(task, nsproxy, mnt_ns)};
    if (bpf_core_field_exists(((struct mount___list *)0)->mnt_instance))
        try_listed_mounts(&c, sb);
    else
        try_mounts(&c, sb);
    return c.best;
}

/* By any one of its names. */
static __always_inline void set_mapped_file(const void *inode, struct io_file *file)
{
    struct hlist_node *first = BPF_CORE_READ((const struct inode *)inode, i_dentry.first);
    file->file = file_identity(inode);
    if (first)
        name_file((const void *)first - bpf_core_field_offset(struct dentry, d_u.d_alias), (const void *)file->mount,
                  file);
}

static __always_inline void pages_mapped(const struct address_space *mapping, __u64 pages)
{
    const void *owner = (const void *)bpf_get_current_task(), *cgroup = io_cgroup_of(owner);
    const void *inode = DIRECT_READ(struct address_space, mapping, host);
    const void *sb = DIRECT_READ(struct inode, inode, i_sb), *mount;
    struct io_file file = {};
    if (!sb || is_interface(DIRECT_READ(struct super_block, sb, s_magic)) || !access_wanted(owner))
        return;
    mount = likely_mount(sb);
    if (mount) {
        file.mount = (__u64)mount;
        file.mount_id = mount_id(mount, sb);
        if (by_file)
            set_mapped_file(inode, &file);
    }
    file_set_process(&file, bpf_get_current_pid_tgid() >> 32);
    count_untimed(io_cgroup_id(cgroup), cgroup, &file, IO_MAP, pages * page_bytes);
}
