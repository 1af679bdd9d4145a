/* I/O operations on file systems, by cgroup, mount and kind of operation, and on block devices (io.bpf.c): the tables
 * and their keys. Shared by the BPF program and src/sources/io. */
#pragma once

#if !defined(__bpf__)
#include <linux/types.h>
#endif

#include "probes/common/record.h"

enum io_operation {
    IO_NONE,
    IO_READ, /* in all forms, also of sendfile, splice and copy_file_range */
    IO_WRITE,
    IO_OPEN,   /* of a file that existed, or failed */
    IO_CREATE, /* opened, and did not exist before */
    IO_CLOSE,  /* by close(2); not by the end of a process */
    IO_SYNC,
    IO_ALLOCATE,
    IO_TRUNCATE,
    IO_STAT,
    IO_LIST,
    IO_MKDIR,
    IO_RMDIR,
    IO_UNLINK,
    IO_RENAME,
    IO_LINK,
    IO_MAP, /* a fault that maps pages of a file: bytes of those pages, whether they are touched or not; never timed */
    IO_OPERATIONS,
};

enum io_flags {
    IO_IS_DIRECT = 1,      /* O_DIRECT: past the page cache */
    IO_IS_OF_DAEMON = 2,   /* by a process that serves a FUSE file system: the client's operation counts, too */
    IO_IS_UNCONFIRMED = 4, /* the kernel does not report the result: bytes are those asked for */
};

#define IO_NO_MOUNT 0 /* the call names a path, on an unknown mount */
#define IO_OTHER    0 /* as a cgroup: of all operations that did not fit the table */

struct io_key {
    __u64 cgroup_id;
    __u64 mount;   /* unique where the kernel has unique IDs (6.8), else with the device in the upper half */
    __u64 file;    /* its identity on the mount, of inode and generation; 0: not counted by file */
    __u32 process; /* 0: not counted by process */
    __u8 operation;
    __u8 flags;
    __u16 reserved;
};
_Static_assert(sizeof(struct io_key) == 32, "a key has no padding");

/* A file whose operations are counted by file. */
struct io_file_key {
    __u64 mount, file;
};

/* Bucket i counts durations up to 2^(IO_FIRST_BUCKET + i) ns that the buckets before it do not; the last one counts
 * the rest. Every operation is in one of them, or untimed. */
#define IO_FIRST_BUCKET 9
#define IO_BUCKETS      27

/* Darshan's bins of access sizes: up to 100 bytes, 1, 10 and 100 KiB, 1, 4, 10 and 100 MiB, 1 GiB, and more. */
#define IO_SIZES 10

struct io_counters {
    __u64 last_ns; /* when the last operation ended */
    __u64 bytes;
    __u64 missed; /* IO_READ: bytes of the pages that were brought into the page cache */
    __u64 errors;
    __u64 untimed; /* operations whose end was not seen */
    __u64 sum_ns;
    __u64 durations[IO_BUCKETS];
    __u64 sizes[IO_SIZES]; /* IO_READ and IO_WRITE, of those that succeeded */
};

/* How often an operation ended with this error. Of a call that names a path, without a mount, `key.file` is the hash of
 * that path (struct io_path), where errors are counted by file. */
struct io_error_key {
    struct io_key key;
    __u32 error; /* errno */
    __u32 reserved;
};

/* A path as a program named it, up to its first NUL. */
#define IO_PATH_WORDS 32
struct io_path {
    union {
        char text[8 * IO_PATH_WORDS];
        __u64 words[IO_PATH_WORDS];
    };
};

/* ABI: the numbers of errors (asm-generic/errno.h) that programs expect: they look for files that may not exist, do
 * without what a file system lacks, or come back later. */
static inline int io_error_is_expected(__u32 error)
{
    switch (error) {
    case 2:  /* ENOENT */
    case 3:  /* ESRCH: a file in /proc of a process that ended */
    case 4:  /* EINTR */
    case 6:  /* ENXIO: /dev/tty without a terminal */
    case 11: /* EAGAIN */
    case 17: /* EEXIST */
    case 18: /* EXDEV */
    case 20: /* ENOTDIR */
    case 38: /* ENOSYS */
    case 39: /* ENOTEMPTY */
    case 95: /* EOPNOTSUPP */
        return 1;
    }
    return 0;
}

#define IO_COMMAND_BYTES 16

/* What programs of one name do with a file by one operation. Not by process: a loop that starts a program a thousand
 * times is one use, and not a thousand small ones. */
struct io_use_key {
    __u64 cgroup_id;
    __u64 mount, file;              /* file 0: calls that name a path */
    char command[IO_COMMAND_BYTES]; /* of the process; "": not known */
    __u8 operation;
    __u8 reserved[7];
};
_Static_assert(sizeof(struct io_use_key) == 48, "a key has no padding");

struct io_use {
    __u64 operations;
    __u64 ns;
    __u64 bytes;      /* of those that succeeded */
    __u32 process;    /* the last one */
    __u32 is_several; /* other processes did the same */
};

/* The name of a process, by its PID: it may have ended when its counters are read. */
struct io_command {
    char text[IO_COMMAND_BYTES];
};

/* The names on the way from a mount point or cgroup to the root, each with a NUL behind it. */
#define IO_NAMES_BYTES 512
#define IO_NAME_MAX    256
#define IO_PATH_BYTES  (IO_NAMES_BYTES + IO_NAME_MAX + 16) /* room for the path of any names */

struct io_name {
    __u32 size;       /* of `names` */
    __u8 is_cut;      /* there was no room for all names */
    __u8 is_outside;  /* a file that is not below the mount: the names lead to the root of the file system */
    __u8 is_hidden;   /* a mount that no program sees: of memory files */
    __u8 is_detached; /* a mount that was unmounted while files on it were open: it has no path */
    __u64 parent, at; /* addresses of the mount that a mount is on, and of the folder there */
    __u64 inode;      /* of a file */
    char type[48];    /* of the file system, with its subtype: "fuse.sshfs" */
    char names[IO_NAMES_BYTES + IO_NAME_MAX];
};

/* The file of an operation. */
struct io_file {
    __u64 mount; /* its address in the kernel; 0: not seen */
    __u64 mount_id;
    __u64 file;    /* 0: not counted by file */
    __u64 offset;  /* where a read or write begins; only of accesses and slow operations */
    __u64 dentry;  /* its address; 0: not of a call, or not seen */
    __u64 path;    /* the hash of the path that a failed call named; 0: none */
    __u32 process; /* 0: not counted by process */
    __u32 flags;
};

/* ---- accesses: what a thread does with a file, for a report ---- */

#define IO_OFFSET_UNKNOWN (~0ull)

struct io_access_key {
    __u64 mount, file; /* 0: the call names a path */
    __u32 process, thread;
};

/* The first operation began, the last one ended; `ns`: the sum of durations. All of CLOCK_MONOTONIC; 0: none. */
struct io_access_time {
    __u64 first_ns, last_ns, ns;
};

/* Reads, or writes. Those that failed have only a time. */
struct io_access_direction {
    struct io_access_time time;
    __u64 operations, bytes;
    __u64 located;  /* whose offset is known */
    __u64 followed; /* operations with one before them in this record: the fields below count among them */
    __u64 sequential, consecutive;
    __u64 unaligned;   /* of the located ones */
    __u64 next_offset; /* behind the last one */
    __u64 end_offset;  /* the highest of those */
    __u64 slowest_ns, slowest_bytes;
    __u64 sizes[IO_SIZES];
};

#define IO_COMMON 4

/* The most frequent values: one that is not among them replaces the rarest (Space-Saving, but counted from 1). */
struct io_common {
    __u64 value[IO_COMMON];
    __u64 count[IO_COMMON];
};

/* One thread writes it at a time: its own. */
struct io_access {
    struct io_access_direction reads, writes;
    struct io_access_time open, close, sync, metadata; /* `metadata`: of all but reads and writes */
    struct io_common sizes, strides;
    __u64 operations[IO_OPERATIONS]; /* with those that failed */
    __u64 last_ns;                   /* when the last one ended */
    __u64 mapped_bytes, errors, direct, switches;
    __u32 block_bytes; /* of the file system */
    __u32 user;
    __u8 last_operation; /* of reads and writes */
    char command[16];    /* of the process */
    char reserved[7];
};

/* Bytes that a process moved while one interval lasted, by when operations ended. */
#define IO_INTERVAL_NS 10000000ull

struct io_interval_key {
    __u32 process;
    __u32 interval; /* since the start of the report */
};

struct io_interval {
    __u64 read_bytes, write_bytes;
};

/* ---- slow operations ---- */

enum { RECORD_IO_SLOW = 56 }; /* struct io_slow */

#define IO_STACK_FRAMES 32

/* An operation that took long, or has been going on for long. */
struct io_slow {
    struct record_header h; /* of the thread that asked for it; the time when it ended, or was found */
    __u64 start_ns;
    __u64 mount;
    __s64 result; /* bytes, or a negative errno; of one that goes on: 0 */
    __u64 offset; /* of a read or write; IO_OFFSET_UNKNOWN */
    __u8 operation;
    __u8 is_pending; /* it goes on; `stack` is where */
    __u8 reserved[2];
    __u32 frames; /* of `stack`: kernel return addresses, leaf first */
    char comm[16];
    __u64 stack[IO_STACK_FRAMES];
    struct io_name file; /* below the mount point; size 0: the call names a path, or its name is not known */
};

/* A request of io_uring, by its address. */
struct io_request {
    __u64 start_ns;
    __u64 asked_bytes;
    __u64 cgroup_id; /* of the task that submitted it */
    __u64 offset;
    struct io_file file;
    __u8 operation;
    __u8 is_file_unknown; /* until it has ended */
    __u8 is_opening;
};

/* ---- block devices ---- */

enum io_device_operation {
    IO_DEVICE_NONE,
    IO_DEVICE_READ,
    IO_DEVICE_WRITE, /* also of zeroes, and what zoned devices do */
    IO_DEVICE_FLUSH,
    IO_DEVICE_DISCARD,
    IO_DEVICE_OPERATIONS,
};

/* Cgroups of block I/O belong to the controller io or blkio, whose hierarchy may differ from the hierarchy of jobs:
 * their IDs have this bit, so that they are no other's. */
#define IO_BLOCK_CGROUP (1ull << 63)
#define IO_KERNEL       1 /* as a cgroup of block I/O: of none */

struct io_device_key {
    __u64 cgroup_id; /* with IO_BLOCK_CGROUP; or IO_KERNEL, IO_OTHER */
    __u32 device;    /* major number << 20 | minor number, of the whole disk */
    __u8 operation;  /* enum io_device_operation */
    __u8 reserved[3];
};
_Static_assert(sizeof(struct io_device_key) == 16, "a key has no padding");

/* Every request that has ended is in one bucket of `served`, with the buckets of struct io_counters. `queued` lacks
 * requests of devices whose statistics are off (/sys/block/NAME/queue/iostats). */
struct io_device_counters {
    __u64 last_ns; /* when the last request ended */
    __u64 bytes;   /* that succeeded */
    __u64 errors;
    __u64 queue_ns;   /* from the request's beginning until it was given to the device */
    __u64 service_ns; /* from then to its end */
    __u64 queued[IO_BUCKETS];
    __u64 served[IO_BUCKETS];
};

/* A request in flight, by its address. */
struct io_device_request {
    struct io_device_key key;
    __u64 queued_ns; /* 0: not known */
    __u64 issued_ns;
    __u64 is_failed; /* in part, so far */
};

struct io_device_name {
    char text[32];
};

/* Requests of Linux AIO. */
struct aio_key {
    __u64 process;
    __u64 address; /* in the process, of the request or the ring */
};

struct aio_request {
    __u64 start_ns;
    struct io_file file;
    __u32 is_counted; /* taken by the thread that counts it */
    __u32 operation;
};

/* How many of each are known, where there is memory for them. */
#define IO_MAX_COUNTERS        16384
#define IO_MIN_COUNTERS        2048
#define IO_MAX_FINE_COUNTERS   65536 /* where they are by process or file */
#define IO_MAX_RESERVE         4096  /* for operations that find those full */
#define IO_MAX_COMMANDS        16384 /* of processes: older ones give way */
#define IO_MAX_ERRORS          2048
#define IO_MAX_PATHS           4096 /* of failed calls: older ones give way */
#define IO_MAX_USES            65536
#define IO_MAX_MOUNTS          1024
#define IO_MAX_CGROUPS         4096
#define IO_MAX_FILES           8192  /* with a name, where they are counted by file */
#define IO_MAX_ACCESSES        32768 /* and names of files, for a report */
#define IO_MAX_INTERVALS       16384
#define IO_MAX_THREADS         16384  /* before Linux 5.11 */
#define IO_MAX_REQUESTS        16384  /* of io_uring, in flight; likewise of AIO */
#define IO_SLOW_BYTES          262144 /* of the ring of slow operations */
#define IO_MAX_RINGS           1024
#define IO_MAX_READERS         4096 /* files that are read by requests, by process */
#define IO_MAX_DAEMONS         1024 /* processes that serve FUSE file systems */

#define IO_MAX_DEVICE_COUNTERS 4096
#define IO_MAX_DEVICES         1024

/* Which files a system call concerns, and how its arguments name them. */
struct io_syscall {
    __u8 operation; /* of the first file; IO_NONE: no I/O */
    __u8 file;      /* enum io_argument */
    __u8 second;    /* operation of the second file; IO_NONE: no second file */
    __u8 second_file;
    __u8 offset; /* enum io_offset: of the first file */
    __u8 path;   /* enum io_argument: of the first path of a call that names one; IO_ARGUMENT_RESULT: none */
};

enum io_offset {
    IO_OFFSET_NONE,     /* not known */
    IO_OFFSET_POSITION, /* where the open file stands */
    IO_OFFSET_FOURTH,   /* the fourth argument */
};

enum io_argument {
    IO_ARGUMENT_FIRST, /* a descriptor in this argument */
    IO_ARGUMENT_SECOND,
    IO_ARGUMENT_THIRD,
    IO_ARGUMENT_RESULT, /* the descriptor that it returns */
    IO_ARGUMENT_PATH,   /* a path, whose mount is not known */
    IO_ARGUMENT_REMOVE, /* unlinkat: a path, and a flag in the third argument that it is a directory */
    IO_ARGUMENT_STAT,   /* newfstatat: a path, or nothing and a flag in the fourth argument: the descriptor in the first
                         */
    IO_ARGUMENT_STATX,  /* likewise, with the flag in the third */
    /* Calls of Linux AIO, by the call: */
    IO_AIO_SETUP,
    IO_AIO_SUBMIT,
    IO_AIO_EVENTS,
    IO_AIO_DESTROY,
};

#define IO_MAX_SYSCALLS 512

/* What the programs cost (probes/common/run_timer.h): calls that concern files, where they begin and end, and requests
 * of io_uring and of block devices. */
enum { IO_TIMER_BEGIN, IO_TIMER_END, IO_TIMER_URING, IO_TIMER_DEVICE, IO_TIMERS };

/* Counters of the BPF programs, per CPU. */
struct io_stats {
    __u64 counters_full; /* operations that count for IO_OTHER */
    __u64 coarse;        /* operations that count in the reserve (probes/io/io_count.bpf.h) */
    __u64 names_full;    /* mounts and cgroups without a name */
    __u64 errors_full;
    __u64 daemons_full;
    __u64 unseen;     /* operations that are not counted: unconfirmed ones of unknown files, AIO that cannot be read */
    __u64 unended;    /* system calls whose thread begins another one, while their end was not seen */
    __u64 calls_full; /* of threads (before Linux 5.11) and of requests in flight: operations that did not fit */
    __u64 accesses_full;  /* operations that are missing in a report */
    __u64 intervals_full; /* operations whose bytes are missing in its heatmap */
    __u64 begun, ended;   /* of a report: the difference goes on */
    __u64 slow_full;      /* slow operations without a record */
};
