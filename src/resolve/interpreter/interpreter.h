/* An interpreter whose frames samples carry: what of it is its own. The kernel half walks a thread's frames and writes
 * them as entries behind the sample (probes/python.h); whose they are the tail says, and what is its own is asked of it
 * here. One file an implementation, one line in interpreters.c's literal array, one test of the same name;
 * ARCHITECTURE.md says what else.
 *
 * Life: open -> layout (a process is published), take (its code is told), find (a sample has it), missing (once a
 * turn), in any order -> free. Bounded; the kernel half is to tell again what had to be forgotten. Of a process nothing
 * is read but what `layout` asks for. Pipeline thread only. */
#pragma once

#include "model/frame.h"
#include "model/metric.h"

#include <linux/types.h>

#include "probes/unwind/unwind_maps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct process;
struct processes;

/* processes_read_memory, of whoever has a table of processes. */
typedef int (*read_memory)(struct processes *processes, const struct process *process, uint64_t address, size_t size,
                           struct buf *to);

struct interpreted_name {
    const char *function; /* as its own profilers write it */
    const char *file;
    uint32_t line; /* 0: unknown */
};

/* Code that was forgotten, or met and not known. */
struct missing_code {
    uint64_t code;
    uint32_t pid, check;
};

struct interpreter {
    const char *name;           /* what people call it: "Python" */
    enum frame_kind frame_kind; /* and with it OpenTelemetry's profile.frame.type */
    const char *mapping;        /* of frames without a name: "[python]" */
    unsigned memory_share;      /* of what all have, in parts: names of Python's code come with their tables of lines */
    unsigned record_kind;       /* enum record_kind: what its kernel half tells of code comes in these */

    int (*open)(size_t max_bytes, void **ret_self);
    /* At most so many of what can be made again are kept. What was told is no cache: who has not the process any more
     * cannot have it again. NULL: all is told. */
    void (*limit_cache)(void *self, size_t entries);

    /* NULL: what layout asks for stands in files alone. Else it reads memory of processes by this; where it is not
     * called there is no layout. */
    void (*read_by)(void *self, read_memory read, struct processes *processes);

    /* How the kernel half reads the process's interpreter: fills its own member of `ret`. -ENOENT: there is none that
     * can be read; -EAGAIN: it has just begun and is to be asked for again in a moment; -EBUSY: later, for files could
     * not be read at present. */
    int (*layout)(void *self, const struct process *process, struct interpreter_layouts *ret);

    /* Whether the code that it made in the process is walked by that layout, and not by frame pointers. NULL: it is
     * not. */
    bool (*walks_code)(void *self, const struct process *process);

    /* Takes in a record of its kind. -EBADMSG: it makes no sense. */
    int (*take)(void *self, const struct record_header *record);

    /* Of an entry that is no mark; texts hold until the next take. -ENOENT: it was never told, or forgotten. */
    int (*find)(void *self, uint32_t pid, const struct python_entry *entry, struct interpreted_name *ret);

    /* Whether this native function runs its frames: what its entries stand in the place of. */
    bool (*is_evaluator)(const char *function);
    /* Whether an evaluator calls this one before it has its frame, or when it has none any more. NULL where frames are
     * never counted (PYTHON_COUNTED). */
    bool (*is_without_frame)(const char *function);

    /* Whether this native function is a part of the one that it serves, which has an entry. Where each entry has its
     * native frame (PYTHON_PLACED) that frame is the next one. NULL: none is. */
    bool (*is_part)(const char *function);

    /* What is to be told with the next sample that has it: at most `max`, to be called until there are none. More than
     * some are asked for when they are met. */
    size_t (*missing)(void *self, struct missing_code *ret, size_t max);

    /* How many were met whose frames cannot be read: of a version, or built in a way, that is not known. */
    uint64_t (*unsupported)(const void *self);
    void (*metrics)(const void *self, struct metric_set *set);
    void (*free)(void *self);
};

extern const struct interpreter interpreter_cpython;
extern const struct interpreter interpreter_v8;
extern const struct interpreter interpreter_hotspot;
