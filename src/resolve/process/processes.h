/* The table of processes, as of the record being processed. Input is the process lifecycle events in order
 * (probes/process.h), and /proc for processes that started before the agent. Bounded; an exited process stays until
 * its last records have been processed. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "model/program_start.h"
#include "model/resource.h"
#include "resolve/process/process.h"

#include <linux/types.h>

#include "probes/common/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct pods;
struct processes;

/* Creates an empty table. `max_bytes` bounds it together with its files, paths and cgroups: the least recently used
 * processes are evicted. The file helper is not started. The caller frees `*ret`. -ENOMEM. */
int processes_new(size_t max_bytes, struct processes **ret);
/* Changes `max_bytes`; takes effect with the next record. */
void processes_set_max_bytes(struct processes *p, size_t max_bytes);
/* Frees the table with all processes and resources; objects that others still reference stay valid. Accepts NULL. */
void processes_free(struct processes *p);
DEFINE_FREEP(processes)

/* For recordings of another time or machine: the present /proc and cgroups do not describe their processes. Files
 * are still opened at their paths, and accepted only if their identity matches. */
void processes_set_replay(struct processes *p);

/* Lowers the limits of open files, keys per file and cached cgroups to `entries` each; they are never raised. */
void processes_limit_caches(struct processes *p, size_t entries);

/* `unused` is called in processes_sweep when the file of an object is closed, because the only process that ran it has
 * exited: other descriptors of this file should be closed, too. */
void processes_on_unused_file(struct processes *p, void (*unused)(uint64_t object_id, void *context), void *context);

/* `find` finds the program that process `pid` started at or after `since_ns`; false: it is not known. What it knows is
 * not read from /proc. */
void processes_know_starts(struct processes *p,
                           bool (*find)(void *context, uint32_t pid, uint64_t since_ns, struct program_start *ret),
                           void *context);

/* Starts the file helper (file_opener.h) now, while the agent is small and single-threaded; otherwise, and after a
 * failure (-errno), it starts at the next request. */
int processes_start_helper(struct processes *p);
/* Appends the executable mappings of /proc/PID/maps to `to`, at most 16 MiB; `proc_fd` is from proc_open. Read by the
 * file helper, so that this waits no longer than any of its requests (file_opener.h). 0; -ETIMEDOUT, -EAGAIN: not at
 * present; other errors of /proc or of `to`. */
int processes_read_maps(struct processes *p, int proc_fd, uint32_t pid, struct buf *to);
/* CPU time of all file helpers so far. */
uint64_t processes_helper_cpu_ns(struct processes *p);
/* Starts a turn: frees the resources that were replaced in the last one. Memory for replaced resources is bounded by
 * the turn: at most one for each call of processes_resource, each process removed and, with new pods, each process. */
void processes_begin_turn(struct processes *p);

/* Applies a valid RECORD_PROCESS_* record; ignores other kinds. Records must come in time order. May free any process,
 * to keep within max_bytes or because its PID has a new one. */
void processes_apply(struct processes *p, const struct record_header *record);

/* Announces a mapping right after a process's exec, before its RECORD_PROCESS_MMAP is due: the first file is the
 * program, and samples between exec and mmap are attributed to it. True: this record named the program. */
bool processes_announce_mmap(struct processes *p, const struct record_header *record);

/* Sets the time of the records (CLOCK_MONOTONIC); an earlier time than the last one is ignored. A process that /proc
 * shows with a later start is another one with the same PID. */
void processes_at(struct processes *p, uint64_t time_ns);

/* The process, read from /proc if it is unknown; NULL when it has exited and left no record (the caller counts
 * LOSS_NO_PROCESS). `cgroup_id` is the sample's (0: unknown), used when /proc can no longer be read. Borrowed
 * until the next processes_apply or processes_sweep. Its fields are current: a call that reads the process again
 * may replace its mappings and changes mapping_version. */
const struct process *processes_find(struct processes *p, uint32_t pid, uint64_t cgroup_id);

/* Writes the name of the process's main thread; of one that has exited and was removed, if its name is still kept.
 * Reads no file. "": not known. */
void processes_command(struct processes *p, uint32_t pid, char out[16]);

/* Sets the name of the main thread from a sample of `time_ns`, in case the record of its renaming was lost. A name of a
 * later time is kept, and a kernel thread's name. `comm` need not be terminated. */
void processes_note_command(struct processes *p, const struct process *process, const char comm[16], uint64_t time_ns);

/* The resource of the process as it is known now; reads its cgroup, environment and published context where that is
 * due. The object never changes: a process that changes gets another one. Borrowed, with its strings, until the next
 * processes_begin_turn, whatever happens to the process before. Never NULL; resource_unknown when out of memory. */
const struct resource *processes_resource(struct processes *p, const struct process *process);

/* Sets the pods for the resources requested from now on; takes a reference of its own. NULL: none. */
void processes_set_pods(struct processes *p, struct pods *pods);
/* True when containers of unknown pods were seen that no earlier call has reported. */
bool processes_misses_pods(struct processes *p);

/* Reads the mappings again, because an address lies outside all of them: code can move without a record (mremap,
 * lost records). At most once a second per process, and never for an exited one. False when nothing changed or
 * nothing was read. */
bool processes_read_mappings(struct processes *p, const struct process *process);

/* Opens the process's /tmp/perf-PID.map if it belongs to its present program; may return a socket for remote_file.h.
 * -ENOENT: no such file; -ETIMEDOUT, -EAGAIN: not at present; any other error: the file is not acceptable
 * (perf_map_file.h). */
int processes_open_perf_map(struct processes *p, const struct process *process);
/* Appends `size` bytes of the process's memory, all or none of them; -ETIMEDOUT, -EAGAIN: not at present. */
int processes_read_memory(struct processes *p, const struct process *process, uint64_t address, size_t size,
                          struct buf *to);
/* The PID of the process in its own PID namespace; 0: it has exited. */
uint32_t processes_innermost_pid(struct processes *p, const struct process *process);

/* Frees processes that exited before `time_ns` (CLOCK_MONOTONIC), and some more to keep within max_bytes; returns how
 * many PIDs were stored in `ret_pids`, so that kernel tables can be emptied too; call again while it returns `max`. */
size_t processes_sweep(struct processes *p, uint64_t time_ns, uint32_t *ret_pids, size_t max);

void processes_metrics(const struct processes *p, struct metric_set *set);
