/* Asks the helper process (file_helper.h) to open files, and waits no longer than a second for what does not
 * answer (file_wait.h): a node agent must go on when one container's file system is dead. What kept us
 * waiting is let alone until it answers, all that lies on its mount included; everything that asks for it
 * meanwhile is told so at once. Functions may be called by any thread. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "resolve/files/file_helper.h"

#include <stdbool.h>
#include <stdint.h>

struct file_opener;

int file_opener_new(struct file_opener **ret);
void file_opener_free(struct file_opener *o);
DEFINE_FREEP(file_opener)

/* Starts the helper now, while we are small and of one thread, instead of when it is needed first. */
int file_opener_start(struct file_opener *o);

/* From now until the next call, all that is asked for together may wait five seconds, since others wait for
 * who asks. What is asked for after that is refused, and so is everything while a helper that got no CPU time
 * gets none: -EAGAIN. */
void file_opener_begin_turn(struct file_opener *o);

/* These return a descriptor or -errno; -ETIMEDOUT: the file system does not answer at present; -EAGAIN: ask
 * again, in another turn.
 *
 * The file of a sight: near, a descriptor to read; far (`is_far` in its identity), one with which
 * file_opener_again can be asked, and for nothing else. */
int file_opener_sight(struct file_opener *o, const struct object_sight *sight, struct object_identity *ret);
/* These may be far as well: then the descriptor is a socket, for remote_file.h (elf_open knows). */
int file_opener_again(struct file_opener *o, int far_fd, const struct object_identity *identity);
int file_opener_beside(struct file_opener *o, const struct object_sight *sight, const char *path);
int file_opener_ours(struct file_opener *o, const char *path);

/* Appends a file of /proc/PID, which may lie in the process's memory and that in a dead file system; what is
 * past `max_bytes` is left out. Of "maps" it is the executable ones alone, where the kernel can tell these
 * apart; FILE_OPENER_ALL_MAPS has all. */
#define FILE_OPENER_ALL_MAPS "./maps"
int file_opener_read_proc(struct file_opener *o, int proc_fd, uint32_t pid, const char *name, size_t max_bytes,
                          struct buf *to);

/* The process's /tmp/perf-PID.map (perf_map_file.h); may be far. `proc_fd` is of proc_open. */
int file_opener_perf_map(struct file_opener *o, int proc_fd, uint32_t pid, uint64_t not_before_ns);

/* Appends what process_context_copy does, and returns what it returns; -ETIMEDOUT, -EAGAIN: at present. `proc_fd` is of
 * proc_open. */
int file_opener_context(struct file_opener *o, int proc_fd, uint32_t pid, const struct process_context_place *known,
                        struct buf *to);

/* Appends `size` bytes of the process's memory, all or none of them; -ETIMEDOUT, -EAGAIN: at present. `proc_fd` is of
 * proc_open. */
int file_opener_memory(struct file_opener *o, int proc_fd, uint32_t pid, uint64_t address, size_t size, struct buf *to);

/* A far file of this mount could not be read: it rests for a while. */
void file_opener_blame(struct file_opener *o, uint64_t mount_id);

struct file_opener_stats {
    uint64_t asked, timed_out, refused, starts;
    size_t resting;  /* mounts and processes that do not answer now */
    uint64_t cpu_ns; /* of the helper */
};
void file_opener_stats(struct file_opener *o, struct file_opener_stats *ret);
