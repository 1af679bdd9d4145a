/* Client of the file helper (file_helper.h): opens files, and waits at most one second for a file system that does
 * not respond (file_wait.h). A node agent must go on when one container's file system is dead. A mount or process
 * that made a request time out is backed off until it responds; requests for anything on it fail at once meanwhile.
 * All functions may be called by any thread. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "resolve/files/file_helper.h"

#include <stdbool.h>
#include <stdint.h>

struct file_opener;

/* Creates a client; its helper is started by the first request. The caller frees `*ret`. -ENOMEM. */
int file_opener_new(struct file_opener **ret);
/* Ends the helper, and does not wait for its threads. No other thread may use `o` any more. */
void file_opener_free(struct file_opener *o);
DEFINE_FREEP(file_opener)

/* Starts the helper now, while the agent is small and single-threaded, instead of at the first request. 0, also
 * when it runs already, or -errno: the next request tries again. */
int file_opener_start(struct file_opener *o);

/* The following functions return a descriptor or -errno. -ETIMEDOUT: the file system does not respond at present.
 * -EAGAIN: retry in another turn, because the time of this one is over (base/turn_time.h) or the helper gets no CPU
 * time. A request waits five seconds at most.
 *
 * Opens the file of a sight. A local file: a descriptor for reading. A remote file (`is_remote` in its identity): an
 * O_PATH descriptor whose only use is file_opener_reopen. */
int file_opener_sight(struct file_opener *o, const struct object_sight *sight, struct object_identity *ret);
/* The file may be remote here as well: the descriptor is then a socket for remote_file.h (elf_open accepts both). */
int file_opener_reopen(struct file_opener *o, int path_fd, const struct object_identity *identity);
int file_opener_in_process_root(struct file_opener *o, const struct object_sight *sight, const char *path);
int file_opener_in_own_root(struct file_opener *o, const char *path);

/* Appends the contents of a file of /proc/PID, cut off at `max_bytes`. Reading it may touch the process's memory,
 * which may lie in a dead file system. For "maps" only executable mappings are appended if the kernel can select
 * them; FILE_OPENER_ALL_MAPS has all. */
#define FILE_OPENER_ALL_MAPS "./maps"
int file_opener_read_proc(struct file_opener *o, int proc_fd, uint32_t pid, const char *name, size_t max_bytes,
                          struct buf *to);

/* Opens the process's /tmp/perf-PID.map (perf_map_file.h), which may be remote. `proc_fd` is from proc_open. */
int file_opener_perf_map(struct file_opener *o, int proc_fd, uint32_t pid, uint64_t not_before_ns);

/* Appends and returns what process_context_copy does; -ETIMEDOUT, -EAGAIN as above. `proc_fd` is from proc_open. */
int file_opener_context(struct file_opener *o, int proc_fd, uint32_t pid, const struct process_context_place *known,
                        struct buf *to);

/* Appends `size` bytes of the process's memory, all or none of them; -ETIMEDOUT, -EAGAIN as above. `proc_fd` is from
 * proc_open. */
int file_opener_memory(struct file_opener *o, int proc_fd, uint32_t pid, uint64_t address, size_t size, struct buf *to);

/* Reports that reading a remote file of this mount timed out: the mount is backed off for a while. */
void file_opener_report_timeout(struct file_opener *o, uint64_t mount_id);

struct file_opener_stats {
    uint64_t requests, timed_out, refused, starts;
    size_t backed_off; /* mounts and processes that are backed off now */
    uint64_t cpu_ns;   /* CPU time of all helpers so far */
};
void file_opener_stats(struct file_opener *o, struct file_opener_stats *ret);
