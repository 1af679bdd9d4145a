/* Pages of files that programs reach through mmap, when they are mapped. Part of io.bpf.c.
 *
 * A fault maps its page, and those around it that are in memory: they may never be touched. Which of several mounts of
 * the file system the program used is not known: the first one is taken. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/io/io_file.bpf.h"

/* Set before loading. */
const volatile __u32 page_bytes = 4096;

static __always_inline const void *first_mount(const void *sb)
{
    struct super_block___list *old = (struct super_block___list *)sb;
    const void *first;
    if (!bpf_core_field_exists(((struct mount___list *)0)->mnt_instance)) /* 6.17 and later */
        return BPF_CORE_READ((struct super_block *)sb, s_mounts);
    first = BPF_CORE_READ(old, s_mounts.next);
    if (first == sb + bpf_core_field_offset(struct super_block___list, s_mounts)) /* none */
        return NULL;
    return first - bpf_core_field_offset(struct mount___list, mnt_instance);
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
    mount = first_mount(sb);
    if (mount) {
        file.mount = (__u64)mount;
        file.mount_id = mount_id(mount, sb);
        if (by_file)
            set_mapped_file(inode, &file);
    }
    file_set_process(&file, bpf_get_current_pid_tgid() >> 32);
    count_untimed(io_cgroup_id(cgroup), cgroup, &file, IO_MAP, pages * page_bytes);
}
