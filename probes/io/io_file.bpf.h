/* From an open file to its mount, and whether operations on it are I/O of a file system. Part of io.bpf.c. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/direct.bpf.h"
#include "probes/common/hash.h"
#include "probes/common/task.bpf.h"
#include "probes/io/io_count.bpf.h"

#if defined(__TARGET_ARCH_x86)
#define O_DIRECT 00040000
#elif defined(__TARGET_ARCH_arm64)
#define O_DIRECT 00200000
#endif

#define O_APPEND      02000
#define AT_REMOVEDIR  0x200
#define AT_EMPTY_PATH 0x1000
#define FMODE_CREATED 0x100000 /* the kernel's, of a file that did not exist before */

/* ABI: magic numbers of file systems that are interfaces to the kernel and hold no data (linux/magic.h). */
static __always_inline bool is_interface(__u64 magic)
{
    switch (magic) {
    case 0x9fa0:     /* proc */
    case 0x62656572: /* sysfs */
    case 0x27e0eb:   /* cgroup */
    case 0x63677270: /* cgroup2 */
    case 0x64626720: /* debugfs */
    case 0x74726163: /* tracefs */
    case 0x73636673: /* securityfs */
    case 0x1cd1:     /* devpts */
    case 0xcafe4a11: /* bpf */
    case 0x6165676c: /* pstore */
    case 0xde5e81e4: /* efivarfs */
    case 0x62656570: /* configfs */
    case 0x19800202: /* mqueue */
    case 0x42494e4d: /* binfmt_misc */
    case 0x6e736673: /* nsfs */
    case 0x50494446: /* pidfs */
    case 0x534f434b: /* sockfs */
    case 0x50495045: /* pipefs */
    case 0x09041934: /* anonymous inodes */
    case 0xf97cff8c: /* selinux */
    case 0x65735543: /* fusectl */
    case 0x67596969: /* rpc_pipefs */
    case 0x6e667364: /* nfsd: the configuration of the server */
    case 0x187:      /* autofs */
        return true;
    }
    return false;
}

static __always_inline __u64 mount_id(const void *mount, const void *sb)
{
    if (bpf_core_field_exists(((struct mount *)0)->mnt_id_unique))
        return DIRECT_READ(struct mount, mount, mnt_id_unique);
    return (__u64)DIRECT_READ(struct super_block, sb, s_dev) << 32 | (__u32)DIRECT_READ(struct mount, mount, mnt_id);
}

/* Another one gets the same inode number when this one is deleted. */
static __always_inline __u64 file_identity(const void *inode)
{
    return hash_mix(DIRECT_READ(struct inode, inode, i_ino), DIRECT_READ(struct inode, inode, i_generation));
}

static __always_inline void name_file(const void *dentry, const void *mount, const struct io_file *f)
{
    struct io_file_key key = {f->mount_id, f->file};
    struct io_stats *stat;
    if (bpf_map_lookup_elem(&file_names, &key) ||
        file_name_add(dentry, BPF_CORE_READ((const struct mount *)mount, mnt.mnt_root), &key) == 0)
        return;
    stat = stats_get();
    if (stat)
        stat->names_full++;
}

/* False: not a file, folder or block device of a file system. Only the kind of operation decides about folders. */
static __always_inline bool file_of(const void *file, struct io_file *ret)
{
    if (!file)
        return false;
    const void *inode = DIRECT_READ(struct file, file, f_inode);
    __u16 kind = DIRECT_READ(struct inode, inode, i_mode) & S_IFMT;
    if (kind != S_IFREG && kind != S_IFDIR && kind != S_IFBLK)
        return false;
    const void *vfsmount = DIRECT_READ(struct file, file, f_path.mnt);
    const void *sb = DIRECT_READ(struct vfsmount, vfsmount, mnt_sb);
    if (is_interface(DIRECT_READ(struct super_block, sb, s_magic)))
        return false;
    const void *mount = vfsmount - bpf_core_field_offset(struct mount, mnt);
    ret->mount = (__u64)mount;
    ret->mount_id = mount_id(mount, sb);
    ret->flags = DIRECT_READ(struct file, file, f_flags) & O_DIRECT ? IO_IS_DIRECT : 0;
    ret->file = by_file || counts_uses ? file_identity(inode) : 0;
    ret->offset = IO_OFFSET_UNKNOWN;
    ret->dentry = (__u64)DIRECT_READ(struct file, file, f_path.dentry);
    if (by_file || counts_uses)
        name_file((const void *)ret->dentry, mount, ret);
    return true;
}

/* ---- FUSE: what its daemons do is counted a second time, as that of their clients ---- */

#define FUSE_DEVICE (10 << 20 | 229) /* /dev/fuse, as the kernel numbers devices */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_DAEMONS);
    __type(key, __u32);
    __type(value, __u8);
} fuse_daemons SEC(".maps");

volatile bool has_fuse_daemons = false;

/* The process reads from this file, which is not one of a file system: does it serve one? */
static __always_inline void note_reader(const void *file)
{
    const void *inode = DIRECT_READ(struct file, file, f_inode);
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    __u8 one = 1;
    if ((DIRECT_READ(struct inode, inode, i_mode) & S_IFMT) != S_IFCHR ||
        DIRECT_READ(struct inode, inode, i_rdev) != FUSE_DEVICE || bpf_map_lookup_elem(&fuse_daemons, &process))
        return;
    struct io_stats *stat = stats_get();
    if (bpf_map_update_elem(&fuse_daemons, &process, &one, BPF_ANY) < 0 && stat)
        stat->daemons_full++;
    has_fuse_daemons = true;
}

/* Sets the process that uses the file. */
static __always_inline void file_set_process(struct io_file *file, __u32 process)
{
    file->process = by_process || counts_uses ? process : 0;
    if (has_fuse_daemons && bpf_map_lookup_elem(&fuse_daemons, &process))
        file->flags |= IO_IS_OF_DAEMON;
}

/* The open file of a descriptor of the task; NULL: none. */
static __always_inline const void *open_file(const void *task, __s32 fd)
{
    const void *files = DIRECT_READ(struct task_struct, task, files);
    const void *table = DIRECT_READ(struct files_struct, files, fdt);
    if (fd < 0 || (__u32)fd >= DIRECT_READ(struct fdtable, table, max_fds))
        return NULL;
    struct file **open = DIRECT_READ(struct fdtable, table, fd);
    return direct_pointer(&open[fd]);
}

/* Where a read or write begins that does not say it itself. */
static __always_inline __u64 file_position(const void *file, __u8 operation)
{
    const void *inode = DIRECT_READ(struct file, file, f_inode);
    if (operation == IO_WRITE && DIRECT_READ(struct file, file, f_flags) & O_APPEND)
        return DIRECT_READ(struct inode, inode, i_size);
    return DIRECT_READ(struct file, file, f_pos);
}
