/* All processes that matter, as they are at the moment of the record at hand: a table fed in order with the
 * records of their lives (probes/process.h), and from /proc for those that are older than we are. Bounded; a
 * process that has exited stays until its last records are through. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/resource.h"
#include "resolve/object/objects.h"

#include <linux/types.h>

#include "probes/common/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct pods;
struct processes;

struct process_mapping {
    uint64_t start, end, file_offset;
    struct object *object; /* NULL: anonymous code (JIT) */
    const char *path;      /* of paths.h, as this process names the file; NULL: no object */
};

struct process {
    uint32_t pid;
    uint64_t start_time_ns;                 /* tells two users of one PID apart */
    uint64_t exec_time_ns;                  /* of its program; 0: began before anybody looked */
    uint64_t mapping_version;               /* grows whenever mappings change (exec, mmap) */
    const struct process_mapping *mappings; /* sorted by start, disjoint; executable ones only */
    size_t mapping_count;
    bool exited;
};

int processes_new(size_t max_bytes, struct processes **ret);
void processes_free(struct processes *p);
DEFINE_FREEP(processes)

/* For records of another day or machine: /proc and the cgroups of now say nothing of those processes. Files
 * are still looked for at their paths, and believed only by their identity. */
void processes_set_replay(struct processes *p);

/* At most `entries` open files, keys of one file, and control groups that nobody holds. */
void processes_limit_caches(struct processes *p, size_t entries);

/* Starts the process that opens files for us (file_opener.h) now, while we are small and of one thread; else
 * it is started when it is needed first. */
int processes_start_helper(struct processes *p);
/* Appends /proc/PID/maps, by that process too; `proc_fd` is of proc_open. */
int processes_read_maps(struct processes *p, int proc_fd, uint32_t pid, struct buf *to);
uint64_t processes_helper_cpu_ns(struct processes *p);
/* Files that are asked for from now on may together keep us waiting for a few seconds; see file_opener.h. */
void processes_begin_turn(struct processes *p);

/* Takes in any RECORD_PROCESS_* record. */
void processes_apply(struct processes *p, const struct record_header *record);

/* Told right after a process's exec what code it will map (RECORD_PROCESS_MMAP, which is taken in at its time):
 * the first file is the program, and samples of the moment in between are its own. True: this is it. */
bool processes_foresee(struct processes *p, const struct record_header *record);

/* Says what time it is in the records: what /proc shows of a process that began later is of another one with
 * the same PID. */
void processes_at(struct processes *p, uint64_t time_ns);

/* The process, read from /proc if it is new to us; NULL when it is gone without a trace (the caller counts
 * LOSS_NO_PROCESS). `cgroup_id` is the one seen with the sample (0: unknown), used when /proc can no longer
 * be asked. Borrowed until the next call that takes a record. */
const struct process *processes_find(struct processes *p, uint32_t pid, uint64_t cgroup_id);

/* What its main thread was called at that time, as a sample of it says: should the record of its name be lost. What is
 * known of a later time stays. */
void processes_see_command(const struct process *process, const char comm[16], uint64_t time_ns);

/* Its texts hold until the next call of any function here: the process may be read anew. */
const struct resource *processes_resource(struct processes *p, const struct process *process);

/* What the container runtime says of pods, for the resources from now on; borrowed until the next call. NULL: nothing.
 */
void processes_set_pods(struct processes *p, const struct pods *pods);
/* Whether containers of pods were met of which it does not say, and that nobody was told of before. */
bool processes_misses_pods(struct processes *p);

/* Reads the mappings again, because an address lies outside of all: code can move without a record (mremap,
 * lost records). At most once a second a process, and never for one that has gone: false when nothing was
 * read. */
bool processes_read_mappings(struct processes *p, const struct process *process);

/* The process's /tmp/perf-PID.map, of its present program, to be read; or a socket for remote_file.h. -ENOENT: there is
 * none; -ETIMEDOUT, -EAGAIN: at present; anything else: what is there is not to be read (perf_map_file.h). */
int processes_open_perf_map(struct processes *p, const struct process *process);
/* Appends a piece of the process's memory, all of it or nothing; -ETIMEDOUT, -EAGAIN: at present. */
int processes_read_memory(struct processes *p, const struct process *process, uint64_t address, size_t size,
                          struct buf *to);
/* What number the process has in its own PID namespace; 0: it has gone. */
uint32_t processes_innermost_pid(struct processes *p, const struct process *process);

/* The mapping that holds `address`, or NULL. */
const struct process_mapping *process_mapping_find(const struct process *process, uint64_t address);

/* Frees what exited before `time_ns`, and tells which, so that kernel tables can be emptied too: returns how
 * many PIDs were put into `ret_pids`; call again while it returns `max`. */
size_t processes_sweep(struct processes *p, uint64_t time_ns, uint32_t *ret_pids, size_t max);

void processes_metrics(const struct processes *p, struct metric_set *set);
