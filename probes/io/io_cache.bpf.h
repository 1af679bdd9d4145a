/* Counts the pages that reads bring into the page cache because they are not there. Part of io.bpf.c.
 *
 * The thread that reads adds the pages, with the pages of the read-ahead, before it waits for them. Pages of metadata
 * and of written data are added the same way: metadata belongs to the device, written pages come in calls that write.
 */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_helpers.h>

#include "probes/common/folio.bpf.h"
#include "probes/io/io_call.bpf.h"
#include "probes/io/io_pages.bpf.h"
#include "probes/io/io_readers.bpf.h"

/* Whether a page of `inode` is of the file that the call reads. A file system above another one (overlayfs) reads by an
 * inode of that: then only the kind can be compared. */
static __always_inline bool is_read_by(const struct io_call *c, const void *inode)
{
    if (c->operation != IO_READ)
        return false;
    const void *dentry = (const void *)c->first.dentry, *opened = DIRECT_READ(struct dentry, dentry, d_inode);
    if (c->second_operation)
        return opened == inode;
    return (DIRECT_READ(struct inode, opened, i_mode) & S_IFMT) == (DIRECT_READ(struct inode, inode, i_mode) & S_IFMT);
}

static __always_inline struct io_counters *counters_of_reader(const void *inode)
{
    struct io_reader_key reader = {(__u64)inode, bpf_get_current_pid_tgid() >> 32};
    const struct io_key *key = bpf_map_lookup_elem(&readers, &reader);
    return key ? bpf_map_lookup_elem(&counters, key) : NULL;
}

/* The current thread adds these pages. */
static __always_inline void pages_added(const struct folio *folio)
{
    const void *inode = folio_mapping(folio)->host;
    struct io_call *c = thread_call();
    struct io_counters *counted = NULL;
    struct io_key key;
    if (!c || (!c->operation && !c->second_operation)) {
        counted = counters_of_reader(inode);
    } else if (is_read_by(c, inode)) {
        const void *cgroup = io_cgroup_of(current_task());
        counted = counters_of(io_cgroup_id(cgroup), cgroup, &c->first, IO_READ, &key);
    }
    if (counted)
        __sync_fetch_and_add(&counted->missed, (__u64)folio_pages(folio) * page_bytes);
}
