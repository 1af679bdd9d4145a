/* I/O of file systems and block devices: the source of signal "io". Its records are counters in tables, which are read
 * on request. Pipeline thread only. */
#pragma once

#include "sources/source.h"

#include "probes/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const struct source source_io;

/* How system calls are seen, best first: by the kernel functions of those that concern files, or by tracepoints of
 * all. */
enum io_method { IO_METHOD_BEST, IO_METHOD_FUNCTIONS, IO_METHOD_TRACEPOINTS };

/* Filled from the settings (signals/io/io.c). */
struct io_options {
    bool enabled;
    uint64_t slow_ns;         /* operations that last longer are records (struct io_slow); 0: none */
    uint64_t hung_ns;         /* not used by the source */
    bool by_process, by_file; /* counters of their own for each; the tables are then soon full */
    bool by_access;   /* records accesses (io_accesses.h) of the tasks that the filter selects; nothing else is counted
                         then */
    bool counts_uses; /* keeps what io_uses.h takes, and counts unexpected errors by process and file */
    bool devices;     /* requests of block devices, too */
    enum io_method method; /* the only method to try; no setting */
};

/* Who reads the counters. */
struct io_reader {
    void *context;
    /* Whether these counters are to be deleted, with the values that they have then. Operations that are counted at
     * that moment may be lost: only for counters that nothing uses any more, or to make room. */
    bool (*is_final)(void *context, const struct io_key *key, const struct io_counters *counters);
    void (*take)(void *context, const struct io_key *key, const struct io_counters *counters, bool is_final);
    /* How often operations failed with an error. NULL: not wanted. */
    void (*take_error)(void *context, const struct io_error_key *key, uint64_t count, bool is_final);
    bool ends_errors; /* error counts are to be deleted */
};

/* How many counters and names of mounts the tables hold: fewer where there is little memory
 * (source_services.table_bytes). */
size_t io_source_counters_max(void *io_source);
size_t io_source_device_counters_max(void *io_source);
size_t io_source_mounts_max(void *io_source);

/* Passes all counters to the reader, in no order. 0, or -errno of reading the tables, when some may be missing. */
int io_source_read(void *io_source, const struct io_reader *reader);
/* Whether a process has ended; `context` is the reader's. */
typedef bool io_is_ended(void *context, uint32_t process);
/* Deletes the counters of each ended process (`is_ended` returns true), and passes them to `reader->take` as final
 * ones. 0, or -errno of reading the tables. */
int io_source_take_ended(void *io_source, const struct io_reader *reader, io_is_ended *is_ended);
/* Passes the errors only to the reader. 0, or -errno of reading the table. */
int io_source_read_errors(void *io_source, const struct io_reader *reader);

/* Likewise for the counters of block devices. */
struct io_device_reader {
    void *context;
    bool (*is_final)(void *context, const struct io_device_key *key, const struct io_device_counters *counters);
    void (*take)(void *context, const struct io_device_key *key, const struct io_device_counters *counters,
                 bool is_final);
};

/* 0 also where block devices are not seen: there are no counters then. */
int io_source_read_devices(void *io_source, const struct io_device_reader *reader);

/* Losses since the start, and other counters: the sums of all CPUs. */
struct io_stats io_source_stats(void *io_source);

/* The name of a device of a key, as in /sys/block. False: not known. */
bool io_source_device(void *io_source, uint32_t device, struct io_device_name *ret);

/* Whether reads that missed the page cache are counted: without it, io_counters.missed is 0. */
bool io_source_counts_misses(void *io_source);

/* The name of a mount or cgroup of a key. False: unknown. */
bool io_source_mount(void *io_source, uint64_t id, struct io_name *ret);
bool io_source_cgroup(void *io_source, uint64_t id, struct io_name *ret);
/* Of a file its path below the mount point. */
bool io_source_file(void *io_source, const struct io_file_key *key, struct io_name *ret);

/* The name that a process had when it last did something new, also if it has ended; of a source with `by_process` or
 * `counts_uses`. False: not known. */
bool io_source_command(void *io_source, uint32_t process, struct io_command *ret);

/* Makes room. It is named again with the next counters that are new. */
void io_source_forget_mount(void *io_source, uint64_t id);
void io_source_forget_cgroup(void *io_source, uint64_t id);

/* Forgets processes that are gone, and requests in flight whose end will not be seen: of AIO when their process is
 * gone, of io_uring and block devices after an hour. Such requests count as LOSS_MISSED. */
void io_source_sweep(void *io_source, uint64_t now_ns);
