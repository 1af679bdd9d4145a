/* The kernel types that the BPF programs read: only fields that are read, relocated at load time by name with the
 * running kernel's BTF (CO-RE), so that one object serves all kernels. Values that are ABI (include/uapi) are fixed.
 *
 * Written by hand. Add a field where its struct is; a struct that only one program reads belongs under that program's
 * heading. */
#pragma once

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;
#define true  1
#define false 0
#define NULL  ((void *)0)

/* ABI: enum bpf_map_type, flags of maps and helpers. */
#define BPF_MAP_TYPE_HASH              1
#define BPF_MAP_TYPE_ARRAY             2
#define BPF_MAP_TYPE_PROG_ARRAY        3
#define BPF_MAP_TYPE_PERCPU_HASH       5
#define BPF_MAP_TYPE_PERCPU_ARRAY      6
#define BPF_MAP_TYPE_LRU_HASH          9
#define BPF_MAP_TYPE_ARRAY_OF_MAPS     12
#define BPF_MAP_TYPE_RINGBUF           27
#define BPF_MAP_TYPE_TASK_STORAGE      29

#define BPF_ANY                        0
#define BPF_NOEXIST                    1
#define BPF_EXIST                      2
#define BPF_F_NO_PREALLOC              (1U << 0)
#define BPF_F_MMAPABLE                 (1U << 10)
#define BPF_F_INNER_MAP                (1U << 12)

#define BPF_LOCAL_STORAGE_GET_F_CREATE (1ULL << 0)

#define BPF_RB_NO_WAKEUP               (1ULL << 0)
#define BPF_RB_FORCE_WAKEUP            (1ULL << 1)
#define BPF_RB_AVAIL_DATA              0

#define PF_KTHREAD                     0x00200000

/* ABI: the registers of an interrupted task, as perf passes them to programs and as they lie at the top of its kernel
 * stack. */
#if defined(__TARGET_ARCH_x86)
struct user_registers {
    __u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_registers {
    __u64 regs[31], sp, pc, pstate;
};
#endif

/* ABI: struct bpf_perf_event_data. */
struct perf_sample_context {
    struct user_registers regs;
    __u64 sample_period;
    __u64 addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Values depend on the kernel's configuration: valid only through CO-RE. */
enum cgroup_subsys_id {
    memory_cgrp_id = 1,
    cpuacct_cgrp_id,
    cpu_cgrp_id,
    pids_cgrp_id,
    devices_cgrp_id,
};

struct kernfs_node {
    __u64 id;
    const char *name;
    struct kernfs_node *__parent; /* 6.15 and later */
};

struct kernfs_node___old {
    struct kernfs_node *parent;
} __attribute__((preserve_access_index));

struct cgroup;

struct cgroup_subsys_state {
    struct cgroup *cgroup;
    struct cgroup_subsys_state *parent;
};

struct cgroup {
    struct cgroup_subsys_state self;
    struct kernfs_node *kn;
    int level; /* of the root: 0 */
};

struct css_set {
    struct cgroup_subsys_state *subsys[1]; /* one per controller; the kernel's array is longer */
    struct cgroup *dfl_cgrp;
};

struct return_instance { /* a function that runs and has a uretprobe */
    unsigned long stack;
    unsigned long orig_ret_vaddr;
    struct return_instance *next;
};

struct uprobe_task {
    struct return_instance *return_instances;
    void *active_uprobe;     /* whose instruction the task executes out of line; NULL: none */
    unsigned long xol_vaddr; /* where it is executed */
    unsigned long vaddr;     /* where it belongs */
};

struct xol_area {
    unsigned long vaddr;
};

struct uprobes_state {
    struct xol_area *xol_area;
};

struct mm_struct {
    unsigned long start_stack;
    unsigned long brk;
    unsigned long env_start, env_end;
    struct uprobes_state uprobes_state; /* CONFIG_UPROBES */
};

struct rq {
    __u64 clock, clock_task; /* up to the last tick or switch; clock_task without interrupts and stolen time */
    __u64 prev_steal_time_rq; /* CONFIG_PARAVIRT_TIME_ACCOUNTING: time stolen by the hypervisor, up to the last tick or
                                 switch */
};

struct cfs_rq {
    struct rq *rq;      /* CONFIG_FAIR_GROUP_SCHED */
    int throttle_count; /* CONFIG_CFS_BANDWIDTH: its group, or an ancestor, has used up its quota */
};

struct sched_entity {
    __u64 exec_start;       /* of rq.clock_task, when sum_exec_runtime was last brought up to date */
    __u64 sum_exec_runtime; /* up to the last tick or switch */
    struct cfs_rq *cfs_rq;  /* CONFIG_FAIR_GROUP_SCHED */
};

struct sched_info {               /* empty without CONFIG_SCHED_INFO */
    unsigned long long run_delay; /* ns spent waiting for a CPU, up to the last switch to it */
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
    unsigned long fsbase;
};
#elif defined(__TARGET_ARCH_arm64)
struct thread_struct {
    struct {
        unsigned long tp_value;
    } uw;
};
#endif

typedef struct {
    unsigned int val;
} kuid_t;

struct cred {
    kuid_t euid;
};

struct thread_info {
#if defined(__TARGET_ARCH_x86)
    __u32 status;
#elif defined(__TARGET_ARCH_arm64)
    unsigned long flags;
#endif
};

struct list_head {
    struct list_head *next, *prev;
};

struct task_struct {
    struct thread_info thread_info;
    struct thread_struct thread;
    __u32 self_exec_id; /* 64 bits since 5.7: this is the lower half */
    int pid;
    int tgid;
    unsigned int flags;
    void *stack;
    struct mm_struct *mm;
    struct task_struct *group_leader;
    struct css_set *cgroups;
    const struct cred *real_cred;
    struct task_struct *real_parent;
    struct list_head children, sibling;
    void *vfork_done; /* until a vforked child executes a program or exits */
    __u64 start_time;
    __u64 start_boottime; /* the clock of /proc/PID/stat */
    struct sched_entity se;
    struct sched_info sched_info;
    bool throttled; /* 6.18 and later, CONFIG_CFS_BANDWIDTH */
    struct files_struct *files;
    struct fs_struct *fs;
    struct nsproxy *nsproxy;
    struct uprobe_task *utask; /* CONFIG_UPROBES */
    unsigned long sas_ss_sp;
    __u64 sas_ss_size;
    unsigned int in_iowait : 1;
    unsigned int in_memstall : 1; /* CONFIG_PSI */
    int on_cpu;                   /* CONFIG_SMP */
    unsigned long nvcsw, nivcsw;
    char comm[16];
};

/* ---- sleeping_tasks.bpf.c ---- */

struct vm_area_struct {
    unsigned long vm_end;
    const void *vm_ops; /* NULL: anonymous memory */
};

/* ---- interrupts.bpf.c ---- */

struct irqaction {
    const char *name;
};

/* ---- blocked.bpf.c ---- */

typedef struct {
    __u64 counter;
} atomic_long_t;

struct mutex {
    atomic_long_t owner;
};

struct rw_semaphore {
    atomic_long_t owner;
};

struct task_struct___blocker { /* CONFIG_DETECT_HUNG_TASK_BLOCKER, 6.16 and later */
    unsigned long blocker;     /* the lock that it waits for, and its type in the low bits */
};

/* ---- oom.bpf.c, and the page faults of cpu.bpf.c ---- */

struct percpu_counter {
    __s64 count;
};

struct mm_struct___counters { /* 6.2 and later */
    struct percpu_counter rss_stat[4];
};

struct mm_rss_stat {
    atomic_long_t count[4];
};

struct mm_struct___old {
    struct mm_rss_stat rss_stat;
};

struct page_counter {
    atomic_long_t usage;
    unsigned long max; /* in pages */
};

struct mem_cgroup {
    struct cgroup_subsys_state css;
    struct page_counter memory;
    bool oom_group;
};

struct perf_event_attr {
    __u32 type;
    __u64 config;
};

struct perf_event {
    struct perf_event_attr attr;
};

struct bpf_perf_event_data_kern {
    struct perf_event *event;
};

/* ---- request.bpf.c ---- */

struct file_system_type {
    const char *name;
};

struct super_block {
    struct dentry *s_root;
    unsigned int s_dev;
    unsigned long s_magic, s_blocksize;
    struct file_system_type *s_type;
    const char *s_subtype;  /* of FUSE */
    struct mount *s_mounts; /* 6.17 and later */
};

struct hlist_node {
    struct hlist_node *next;
};

struct hlist_head {
    struct hlist_node *first;
};

struct inode {
    unsigned short i_mode;
    unsigned int i_rdev;
    struct super_block *i_sb;
    unsigned long i_ino;
    long long i_size;
    unsigned int i_generation;
    struct hlist_head i_dentry;
};

struct address_space {
    struct inode *host;
};

struct page { /* before 5.16 */
    struct address_space *mapping;
    unsigned long index;
};

struct folio { /* 5.16 and later */
    struct address_space *mapping;
    unsigned long index;
};

struct folio___pages { /* of large ones; 6.0 and later */
    unsigned int _folio_nr_pages;
} __attribute__((preserve_access_index));

struct folio___pages_new { /* the same, 6.15 and later */
    unsigned int _nr_pages;
} __attribute__((preserve_access_index));

enum pageflags { /* valid only through CO-RE */
                 PG_head = 6,
};

struct qstr {
    __u64 hash_len; /* of the name and the folder that it is in */
    const unsigned char *name;
};

struct dentry {
    struct dentry *d_parent;
    struct qstr d_name;
    struct inode *d_inode;
    union {
        struct hlist_node d_alias; /* in its inode's i_dentry */
    } d_u;
};

struct vfsmount {
    struct dentry *mnt_root;
    struct super_block *mnt_sb;
};

struct path {
    struct vfsmount *mnt;
    struct dentry *dentry;
};

struct fs_struct {
    struct path root, pwd;
};

struct nsproxy {
    void *mnt_ns;
};

struct file {
    struct path f_path;
    struct inode *f_inode;
    unsigned int f_flags, f_mode;
    long long f_pos;
    void *private_data;
};

struct fdtable {
    unsigned int max_fds;
    struct file **fd;
};

struct files_struct {
    struct fdtable *fdt;
};

struct in6_addr {
    __u8 s6_addr[16];
};

typedef struct {
    __s64 counter;
} atomic64_t;

typedef struct {
    int counter;
} atomic_t;

struct refcount_struct {
    atomic_t refs;
};

struct ns_common {
    unsigned int inum;
};

struct net {
    struct ns_common ns;
};

struct mnt_namespace {
    struct ns_common ns;
};

typedef struct {
    struct net *net; /* CONFIG_NET_NS */
} possible_net_t;

struct sock_common {
    unsigned short skc_family;
    volatile unsigned char skc_state;
    __be32 skc_daddr, skc_rcv_saddr; /* remote and local */
    __be16 skc_dport;
    unsigned short skc_num; /* local port */
    possible_net_t skc_net;
    struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
    atomic64_t skc_cookie;
};

struct sock_cgroup_data {
    struct cgroup *cgroup; /* before 5.15 with flags in the lowest bits, under another name */
};

struct upid {
    int nr;
};

struct pid {
    struct upid numbers[1]; /* as the first PID namespace has it */
};

struct sock {
    struct sock_common __sk_common;
    __s32 sk_wmem_queued;
    __s32 sk_sndbuf;
    __u16 sk_protocol;
    __u16 sk_type;
    atomic_t sk_drops;
    __u32 sk_ack_backlog, sk_max_ack_backlog;
    struct sock_cgroup_data sk_cgrp_data;
    struct pid *sk_peer_pid; /* of a Unix socket */
};

struct sk_buff {
    struct sock *sk;
    char cb[48];
};

struct tcp_skb_cb { /* in sk_buff.cb */
    __u16 tcp_gso_segs;
};

struct inet_connection_sock {
    __u8 icsk_ca_state : 5;
    __u8 icsk_pending;
    const void *icsk_ulp_ops; /* another protocol between the socket and TCP (TLS in the kernel) */
};

struct tcp_sock {
    __u32 write_seq;
    __u32 copied_seq;
    __u32 rcv_nxt;
    __u64 bytes_received;
};

struct socket {
    struct sock *sk;
};

struct msghdr;
struct pt_regs { /* only its size is used; it begins with struct user_registers */
    unsigned long sp;
};

/* A task as requests see it: fields under the names of both old and new kernels. */
struct task_struct___state_new {
    unsigned int __state;
} __attribute__((preserve_access_index));

struct task_struct___state_old {
    long state;
} __attribute__((preserve_access_index));

/* ---- io.bpf.c ---- */

struct mount {
    struct mount *mnt_parent;
    struct dentry *mnt_mountpoint;
    struct vfsmount mnt;
    void *mnt_ns;
    struct mount *mnt_next_for_sb; /* 6.17 and later */
    int mnt_id;
    __u64 mnt_id_unique; /* 6.8 and later */
};

struct super_block___list { /* before 6.17 */
    struct list_head s_mounts;
} __attribute__((preserve_access_index));

struct mount___list { /* before 6.17 */
    struct list_head mnt_instance;
} __attribute__((preserve_access_index));

struct io_uring_task {
    struct task_struct *task;
};

struct io_rsrc_node {
    unsigned long file_ptr;
};

struct io_rsrc_data { /* 6.13 and later */
    unsigned int nr;
    struct io_rsrc_node **nodes;
};

struct io_file_table {
    struct io_rsrc_data data;
};

struct io_ring_ctx {
    struct io_file_table file_table;
};

struct io_cqe {
    int fd; /* until the request runs */
};

struct io_kiocb {
    struct file *file; /* once the request runs */
    __u8 opcode;
    __u64 flags; /* 32 bits before 6.10 */
    struct io_cqe cqe;
    struct io_ring_ctx *ctx;
    struct io_uring_task *tctx;
};

struct io_kiocb___task { /* before 6.13 */
    struct task_struct *task;
} __attribute__((preserve_access_index));

/* At the beginning of a request, by its operation. */
struct kiocb {
    long long ki_pos;
};

struct io_rw {
    struct kiocb kiocb;
    __u32 len;
};

struct io_open {
    __u32 file_slot;
};

struct io_close {
    int fd;
    __u32 file_slot;
};

struct io_unlink {
    int flags;
};

struct io_uring_cqe {
    __s32 res;
    __u32 flags;
};

struct seq_file;

struct bpf_iter_meta {
    struct seq_file *seq;
};

struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
};

struct bpf_iter__task_file {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
    __u32 fd;
    struct file *file;
};

struct gendisk {
    int major, first_minor;
    char disk_name[32];
};

struct request_queue {
    struct gendisk *disk; /* 5.15 and later */
};

struct blkcg {
    struct cgroup_subsys_state css;
};

struct blkcg_gq {
    struct blkcg *blkcg;
};

struct bio {
    struct blkcg_gq *bi_blkg; /* CONFIG_BLK_CGROUP */
};

struct request {
    struct request_queue *q;
    unsigned int cmd_flags;
    unsigned int rq_flags;
    unsigned int __data_len; /* bytes that have not ended yet */
    struct bio *bio;
    __u64 start_time_ns;
};

enum rqf_flags { /* 6.12 and later; valid only through CO-RE */
                 __RQF_IO_STAT = 8,
};

struct request___old { /* before 5.17 */
    struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

#pragma clang attribute pop
