/* What processes did with files between two moments, in the terms of Darshan: the input of the findings and of all
 * formats of `sonde io report`. Plain data; owned, with its strings, by io_report/io_report_data.c.
 *
 * Times are ns since the start of the report, durations ns, offsets and sizes bytes. */
#pragma once

#include "model/coverage.h"
#include "model/io_failure.h"

#include <stddef.h>
#include <stdint.h>

#define IO_REPORT_SIZES  10 /* Darshan's bins: up to 100 bytes, 1, 10, 100 KiB, 1, 4, 10, 100 MiB, 1 GiB, and more */
#define IO_REPORT_COMMON 4

/* Something that happened between two times; both 0: it did not. `ns`: the sum of durations. */
struct io_report_time {
    uint64_t first_ns, last_ns; /* the first one began, the last one ended */
    uint64_t ns;
};

/* The reads of a file, or the writes. */
struct io_report_accesses {
    uint64_t operations; /* that succeeded */
    uint64_t bytes;
    uint64_t located;     /* operations with a known offset */
    uint64_t followed;    /* located operations with one before them: sequential and consecutive ones are among them */
    uint64_t sequential;  /* began at the end of the one before, or behind it: with the consecutive ones */
    uint64_t consecutive; /* began at the end of the one before */
    uint64_t unaligned;   /* began off a block of the file system */
    uint64_t end_offset;  /* the highest byte, plus one; 0: none */
    uint64_t sizes[IO_REPORT_SIZES];
    uint64_t slowest_ns, slowest_bytes;
    struct io_report_time time; /* also of those that failed */
};

/* How often a size or stride occurred. Counts are of the most frequent ones, and may be too low where there are many.
 */
struct io_report_common {
    uint64_t value, count; /* count 0: the entry is not used */
};

/* A file as one process used it. */
struct io_report_file {
    const char *path;        /* absolute, as the process sees it; "" for calls that name a path and no open file */
    const char *mount_point; /* "" with those */
    const char *file_system; /* "ext4"; "" with those */
    uint64_t inode;
    uint32_t process;     /* index of io_report.processes */
    uint32_t block_bytes; /* of the file system; 0: not known */
    struct io_report_accesses reads, writes;
    uint64_t switches;                                                       /* from reading to writing, and back */
    uint64_t opens, creates, closes, stats, syncs, truncates, lists, others; /* with those that failed; `others`:
                                                                                unlink, rename, mkdir, ... */
    uint64_t maps, mapped_bytes;                                             /* page faults of mmap, in pages */
    uint64_t errors;                                                         /* of all operations */
    uint64_t direct;                                                         /* operations with O_DIRECT */
    struct io_report_time open, close, sync,
        metadata; /* `metadata`: all that is neither read nor write, syncs included */
    struct io_report_common sizes[IO_REPORT_COMMON];   /* of reads and writes, the most frequent first */
    struct io_report_common strides[IO_REPORT_COMMON]; /* from the end of one access to the start of the next, > 0 */
};

struct io_report_process {
    uint32_t pid;
    const char *command; /* its name, as ps shows it */
};

/* Bytes that a process moved in an interval of the heatmap. */
struct io_report_cell {
    uint64_t read_bytes, write_bytes;
};

/* A thread of one of the processes, as far as it was observed. */
struct io_report_thread {
    uint32_t process; /* index of io_report.processes */
    uint32_t tid;
    uint64_t ran_ns;
    uint64_t for_reads_ns; /* it slept until other threads had read from files, or opened or looked up some */
    uint64_t inferred_ns;  /* part of for_reads_ns: the thread that sent something over TCP is inferred */
    uint64_t unknown_ns;   /* it slept for an unknown reason */
    const struct io_report_file *awaited; /* the file for whose reads it waited longest; NULL: not known */
    size_t awaited_others;                /* further files for whose reads it waited */
};

/* Of the waits of thread `waiter` of process `waiter_pid`, those for reads by thread `reader`. */
struct io_report_wait {
    uint32_t waiter, waiter_pid;
    uint32_t reader, reader_pid;
    uint64_t ns;
};

struct io_report {
    const char *title;      /* the subject: "slurm 4711", "process 815", "python3 train.py" */
    const char *executable; /* the command line, or the command line of the first process; "" if unknown */
    const char *job_id;     /* "" if it is not known */
    uint64_t start_unix_ns; /* CLOCK_REALTIME */
    uint64_t duration_ns;
    uint32_t uid;                              /* of the first process */
    const struct io_report_process *processes; /* those that used files, by PID */
    size_t process_count;
    const struct io_report_file *files; /* by process, then path */
    size_t file_count;
    const struct io_report_cell *cells; /* cell of process p in interval i: cells[p * interval_count + i] */
    size_t interval_count;              /* at most 200 */
    uint64_t interval_ns;
    uint64_t lost;    /* operations that did not fit the tables, or were not seen: they are not in the report */
    uint64_t pending; /* operations that had not ended: likewise */
    const struct io_report_thread *threads; /* by process */
    size_t thread_count;
    const struct io_failure *failures; /* unexpected errors first, then by count */
    size_t failure_count;
    struct coverage coverage;           /* the observed part of the interval */
    const struct io_report_wait *waits; /* in no order */
    size_t wait_count;
    uint64_t waits_observed_ns; /* how long threads were observed for this; 0: not at all (rights or kernel) */
    uint64_t waits_unknown_ns;  /* the unknown part of the waits of main threads */
};
