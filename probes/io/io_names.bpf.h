/* The names of mount points and cgroups, noted when the first operation is counted for them: they may be gone when
 * the counters are read. Part of io.bpf.c. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/common/cgroup.bpf.h"
#include "probes/io.h"

#define IO_STEPS_MAX    64  /* of a path to the root */
#define MNT_NS_INTERNAL -22 /* the kernel's mark in place of a namespace */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_MOUNTS);
    __type(key, __u64);
    __type(value, struct io_name);
} mount_names SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_CGROUPS);
    __type(key, __u64);
    __type(value, struct io_name);
} cgroup_names SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, IO_MAX_FILES);
    __type(key, struct io_file_key);
    __type(value, struct io_name);
} file_names SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct io_name);
} name_scratch SEC(".maps");

static __always_inline struct io_name *name_begin(void)
{
    const __u32 zero = 0;
    struct io_name *n = bpf_map_lookup_elem(&name_scratch, &zero);
    if (n) {
        n->is_hidden = n->is_detached = n->is_cut = n->is_outside = false;
        n->parent = n->at = n->inode = 0;
        n->size = 0;
        n->type[0] = '\0';
    }
    return n;
}

static __always_inline void name_append(struct io_name *n, const char *name)
{
    __u32 size = n->size;
    if (size >= IO_NAMES_BYTES) {
        n->is_cut = true;
        return;
    }
    long length = bpf_probe_read_kernel_str(&n->names[size], IO_NAME_MAX, name);
    n->size = size + (length > 0 ? length : 0);
}

static __always_inline void type_name(struct io_name *n, const struct super_block *sb)
{
    const char *subtype = BPF_CORE_READ(sb, s_subtype);
    long size = bpf_probe_read_kernel_str(n->type, 16, BPF_CORE_READ(sb, s_type, name));
    if (!subtype || size <= 1 || size > 16)
        return;
    if (bpf_probe_read_kernel_str(&n->type[size], 32, subtype) > 1)
        n->type[size - 1] = '.';
}

static __noinline int mount_name_add(const struct mount *mount, __u64 id)
{
    struct io_name *n = name_begin();
    if (!n)
        return 0;
    const struct super_block *sb = BPF_CORE_READ(mount, mnt.mnt_sb);
    type_name(n, sb);
    const void *namespace = BPF_CORE_READ(mount, mnt_ns);
    n->is_hidden = (__s64) namespace == MNT_NS_INTERNAL;
    n->is_detached = !namespace;
    const struct dentry *at = BPF_CORE_READ(mount, mnt_mountpoint);
    const struct mount *parent = BPF_CORE_READ(mount, mnt_parent);
    n->at = (__u64)at;
    n->parent = (__u64)parent;
    for (int i = 0; i < IO_STEPS_MAX && parent != mount; i++) {
        if (at == BPF_CORE_READ(parent, mnt.mnt_root)) { /* on to the mount that this one is mounted on */
            mount = parent;
            at = BPF_CORE_READ(mount, mnt_mountpoint);
            parent = BPF_CORE_READ(mount, mnt_parent);
            continue;
        }
        name_append(n, (const char *)BPF_CORE_READ(at, d_name.name));
        const struct dentry *up = BPF_CORE_READ(at, d_parent);
        if (up == at)
            break;
        at = up;
    }
    return bpf_map_update_elem(&mount_names, &id, n, BPF_ANY);
}

/* Whether the mount has been moved since it was named, as containers' roots are, or has another one's old ID. */
static __always_inline bool is_mount_named(const struct mount *mount, __u64 id)
{
    const struct io_name *n = bpf_map_lookup_elem(&mount_names, &id);
    return n && n->at == (__u64)BPF_CORE_READ(mount, mnt_mountpoint) &&
           n->parent == (__u64)BPF_CORE_READ(mount, mnt_parent);
}

static __noinline int cgroup_name_add(struct cgroup *cgroup, __u64 id)
{
    struct io_name *n = name_begin();
    const struct kernfs_node *node = BPF_CORE_READ(cgroup, kn), *parent;
    if (!n)
        return 0;
    for (int i = 0; i < IO_STEPS_MAX && node; i++) {
        if (bpf_core_field_exists(((struct kernfs_node___old *)0)->parent))
            parent = BPF_CORE_READ((const struct kernfs_node___old *)node, parent);
        else
            parent = BPF_CORE_READ(node, __parent);
        if (!parent) /* the root, which has no name */
            break;
        name_append(n, BPF_CORE_READ(node, name));
        node = parent;
    }
    return bpf_map_update_elem(&cgroup_names, &id, n, BPF_ANY); /* another CPU may have added it meanwhile */
}

/* The path of a file below its mount point, whose folder is `root`. */
static __always_inline void path_append(struct io_name *n, const struct dentry *at, const struct dentry *root)
{
    for (int i = 0; i < IO_STEPS_MAX && at && at != root; i++) {
        const struct dentry *up = BPF_CORE_READ(at, d_parent);
        if (up == at) { /* the root of the file system: the mount shows another part of it */
            n->is_outside = true;
            break;
        }
        name_append(n, (const char *)BPF_CORE_READ(at, d_name.name));
        at = up;
    }
}

static __noinline int file_name_add(const struct dentry *at, const struct dentry *root, const struct io_file_key *key)
{
    struct io_name *n = name_begin();
    if (!n)
        return 0;
    n->inode = BPF_CORE_READ(at, d_inode, i_ino);
    path_append(n, at, root);
    return bpf_map_update_elem(&file_names, key, n, BPF_ANY); /* likewise */
}
