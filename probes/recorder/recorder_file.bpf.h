/* Which file, and which part of it, a thread waits for that sleeps for a disk: the one that its system call is about,
 * and the pages that it has last added to the page cache, which are the ones that it had read (also for a page fault,
 * and by read-ahead). Only such a wait costs that, and a page that enters the page cache; with is_detailed every sleep
 * in a read does. Part of recorder.bpf.c. */
#pragma once

#include "probes/common/folio.bpf.h"
#include "probes/common/hash.h"
#include "probes/common/syscalls.bpf.h"
#include "probes/common/task.bpf.h"
#include "probes/recorder/recorder.bpf.h"
#include "probes/recorder/recorder_task.bpf.h"

#define O_APPEND 02000
#if defined(__TARGET_ARCH_arm64)
#define O_DIRECT 0200000
#else
#define O_DIRECT 040000
#endif

/* Adjacent pages of one file, which one thread has added without sleeping in between. */
struct added_pages {
    __u64 inode; /* its address */
    __u64 first, end;
    __u64 sleeps; /* of the thread, until then */
    __u32 tid;
    __u32 reserved;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct added_pages);
} recorder_added SEC(".maps");

/* The current thread adds it. */
static __always_inline void note_added_page(const struct folio *folio)
{
    const __u32 zero = 0, tid = (__u32)bpf_get_current_pid_tgid();
    struct added_pages *added = bpf_map_lookup_elem(&recorder_added, &zero);
    if (!added)
        return;
    const __u64 index = folio_index(folio), end = index + folio_pages(folio);
    const __u64 inode = (__u64)folio_mapping(folio)->host;
    const __u64 sleeps = has_task_registers ? bpf_get_current_task_btf()->nvcsw
                                            : BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), nvcsw);
    if (added->tid == tid && added->inode == inode && added->end == index && added->sleeps == sleeps) {
        added->end = end;
        return;
    }
    added->tid = tid;
    added->inode = inode;
    added->first = index;
    added->end = end;
    added->sleeps = sleeps;
}

/* The key of a file, whose name is then known: with the name in it, since files are renamed and inodes used again.
 * `dentry`: NULL: any one of the inode's. */
static __always_inline __u64 file_key(struct inode *inode, struct dentry *dentry)
{
    const __u64 device = BPF_CORE_READ(inode, i_sb, s_dev);
    if (!dentry) {
        struct hlist_node *first = BPF_CORE_READ(inode, i_dentry.first);
        dentry = first ? (void *)first - bpf_core_field_offset(struct dentry, d_u.d_alias) : NULL;
    }
    const __u64 name = dentry ? BPF_CORE_READ(dentry, d_name.hash_len) : 0;
    const __u64 key = hash_mix(hash_mix(hash_mix(0, device), BPF_CORE_READ(inode, i_ino)), name);
    if (bpf_map_lookup_elem(&recorder_files, &key))
        return key;
    struct recorder_file file = {.name = ""};
    if (dentry)
        bpf_probe_read_kernel_str(file.name, sizeof(file.name), BPF_CORE_READ(dentry, d_name.name));
    bpf_probe_read_kernel_str(file.file_system, sizeof(file.file_system), BPF_CORE_READ(inode, i_sb, s_type, name));
    bpf_map_update_elem(&recorder_files, &key, &file, BPF_ANY);
    return key;
}

static __always_inline bool read_registers(struct task_struct *task, struct syscall_registers *ret)
{
    const void *registers = has_task_registers
                                ? (const void *)bpf_task_pt_regs(task)
                                : BPF_CORE_READ(task, stack) + stack_offset - sizeof(struct syscall_registers);
    return bpf_probe_read_kernel(ret, sizeof(*ret), registers) == 0;
}

static __always_inline __u64 pages_between(__u64 offset, __u64 bytes)
{
    const __u64 first = offset >> RECORDER_PAGE_SHIFT, last = (offset + bytes - 1) >> RECORDER_PAGE_SHIFT;
    return bytes && last >= first ? recorder_pages(first, last - first + 1) : 0;
}

/* What the system call asks for, of `file`. */
static __always_inline __u64 asked_pages(const struct syscall_registers *registers, struct file *file)
{
    const __s32 number = REGISTERS_NUMBER(registers);
    if (number == NR_pread64 || number == NR_pwrite64)
        return pages_between(REGISTERS_FOURTH(registers), REGISTERS_THIRD(registers));
    if (number == NR_read || (number == NR_write && !(BPF_CORE_READ(file, f_flags) & O_APPEND)))
        return pages_between(BPF_CORE_READ(file, f_pos), REGISTERS_THIRD(registers));
    if (number == NR_sendfile && !REGISTERS_THIRD(registers))
        return pages_between(BPF_CORE_READ(file, f_pos), REGISTERS_FOURTH(registers));
    return 0;
}

/* The file that the thread's system call is about, if that can have a disk behind it. `r` is changed. */
static __always_inline void record_file_of_call(const struct recorder_place *place, struct recorder_record *r,
                                                struct task_struct *task)
{
    struct syscall_registers registers;
    if (r->syscall == RECORDER_NO_SYSCALL || !read_registers(task, &registers))
        return;
    if (r->syscall != NR_sendfile && !is_on_descriptor(r->syscall))
        return;
    struct file *file =
        task_file(task, r->syscall == NR_sendfile ? REGISTERS_SECOND(&registers) : REGISTERS_FIRST(&registers));
    if (!file)
        return;
    struct inode *inode = BPF_CORE_READ(file, f_inode);
    const __u16 type = BPF_CORE_READ(inode, i_mode) & S_IFMT;
    if (type != S_IFREG && type != S_IFDIR && type != S_IFBLK)
        return;
    r->flags = BPF_CORE_READ(file, f_flags) & O_DIRECT ? RECORDER_DIRECT : 0;
    r->object = file_key(inode, BPF_CORE_READ(file, f_path.dentry));
    r->value = asked_pages(&registers, file);
    recorder_put_object(place, r);
}

static __always_inline bool is_file_call(__s16 number)
{
    return number == NR_flock || (is_detailed && (number == NR_read || number == NR_pread64 || number == NR_readv ||
                                                  number == NR_preadv || number == NR_preadv2));
}

/* Whether the thread sleeps for a disk, for a lock on a file, or in a read. */
static __always_inline bool is_for_file(const struct recorder_record *left)
{
    return left->flags & (RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT) ||
           (is_file_call(left->syscall) && !(left->flags & RECORDER_PREEMPTED));
}

/* `task` leaves the CPU to sleep, as its record `left` says, for a file: except that a read may be of a pipe. A
 * function, so that its stack is free again while tasks are read. */
static __noinline int record_files(const struct recorder_place *place, const struct recorder_record *left,
                                   struct task_struct *task)
{
    struct recorder_record r = *left;
    const __u32 zero = 0;
    r.kind = RECORDER_FILE;
    record_file_of_call(place, &r, task);
    if (!(left->flags & (RECORDER_UNINTERRUPTIBLE | RECORDER_IO_WAIT))) /* not for pages */
        return 0;
    const struct added_pages *added = bpf_map_lookup_elem(&recorder_added, &zero);
    if (!added || added->tid != r.tid || added->sleeps + 1 != BPF_CORE_READ(task, nvcsw))
        return 0;
    r.flags = RECORDER_ADDED_PAGES;
    r.object = file_key((struct inode *)added->inode, NULL);
    r.value = recorder_pages(added->first, added->end - added->first);
    recorder_put_object(place, &r);
    return 0;
}
