/* Interface of an interpreter whose frames samples carry. The BPF side walks a thread's interpreter frames and writes
 * them as entries behind the sample (probes/interpreter/interpreter.h); the tail names the interpreter (enum
 * interpreter_kind), and this interface supplies its specifics. Each implementation has one source file, one
 * line in the table in interpreters.c, and one test of the same name; see ARCHITECTURE.md.
 *
 * Call order: open; then in any order layout (a process is published), take (a record describes code), find (a sample
 * refers to code), missing (once per pipeline turn); then free. Memory is bounded; the BPF side emits evicted
 * descriptions again. Only `layout` reads a process's memory or files. Pipeline thread only. */
#pragma once

#include "model/frame.h"
#include "model/metric.h"

#include <linux/types.h>

#include "probes/interpreter/interpreter.h"
#include "probes/unwind/unwind_maps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct process;
struct processes;
struct stack_record;

/* Reads `size` bytes at `address` of a process's memory; implemented by processes_read_memory. */
typedef int (*read_memory)(struct processes *processes, const struct process *process, uint64_t address, size_t size,
                           struct buf *to);

/* A thread that is off its CPU, whose frames user space walks. */
struct sleeping_thread {
    read_memory read;
    struct processes *processes;
    const struct process *process;
    uint64_t pointer; /* the thread pointer of its C library */
};

struct interpreted_name {
    const char *function; /* in the notation of the runtime's own profilers */
    const char *file;
    uint32_t line;      /* 0: unknown */
    bool is_first_line; /* as in struct frame */
};

/* Key of code whose description was evicted or never received. */
struct missing_code {
    uint64_t code;
    uint32_t pid, check;
};

struct interpreter {
    const char *name;           /* display name: "Python" */
    enum frame_kind frame_kind; /* maps to OpenTelemetry's profile.frame.type */
    const char *mapping;        /* mapping of frames without a name: "[python]" */
    unsigned memory_share;      /* relative share of max_bytes; Python's includes line tables */
    unsigned record_kind;       /* RECORD_... of the records that describe its code */

    int (*open)(size_t max_bytes, void **ret_self);
    /* Limits the caches of derived data (decoded lines) to `entries`. Registered code is not a cache: it cannot be read
     * again once the process has exited. NULL: there is no such cache. */
    void (*limit_cache)(void *self, size_t entries);

    /* Sets the function that `layout` reads process memory with. NULL: `layout` needs only files. An implementation
     * that has this returns no layout until it was called. */
    void (*read_by)(void *self, read_memory read, struct processes *processes);

    /* Fills the interpreter's member of `ret`: how the BPF side reads it in this process. -ENOENT: the process has no
     * readable interpreter. -EAGAIN: the interpreter is still starting; call again soon. -EBUSY: files could not be
     * read at present; call again later. */
    int (*layout)(void *self, const struct process *process, struct interpreter_layouts *ret);

    /* Whether the BPF side walks this process's JIT code by that layout instead of by frame pointers. NULL: false. */
    bool (*walks_code)(void *self, const struct process *process);

    /* Walks the frames of a thread that sleeps, as the BPF programs do those of a running one. Appends them to the
     * record of its stack, a valid one without them in RECORD_MAX_BYTES of memory; nothing if the thread has none. The
     * caller checks that the thread has not run meanwhile. -errno: as `layout`, or -ENOMEM. NULL: they cannot be
     * walked. */
    int (*walk_sleeping)(void *self, const struct sleeping_thread *thread, struct stack_record *record);

    /* Registers the code that a record of `record_kind` describes. -EBADMSG: the record is malformed. */
    int (*take)(void *self, const struct record_header *record);

    /* The name of an entry that is not a mark; strings are valid until the next take. -ENOENT: its code was never
     * described, or was evicted. */
    int (*find)(void *self, uint32_t pid, const struct interpreter_entry *entry, struct interpreted_name *ret);

    /* Whether this native function is the evaluator, which runs the interpreter's frames and which the entries replace.
     */
    bool (*is_evaluator)(const char *function);
    /* Whether an evaluator calls this function before it has set up its frame, or after it has dropped it. NULL if
     * frames are never counted (INTERPRETER_TAIL_COUNTED). */
    bool (*is_without_frame)(const char *function);

    /* Whether this native function is a helper of the evaluator or function that has the entry, and is hidden with it.
     * With INTERPRETER_TAIL_PLACED that function is the next native frame. NULL: there are no helpers. */
    bool (*is_part)(const char *function);

    /* Removes up to `max` keys of missing code; the BPF side must emit its descriptions again. Call until it
     * returns 0. The list is bounded; the others are added when a sample refers to them. */
    size_t (*missing)(void *self, struct missing_code *ret, size_t max);

    /* How many instances were found whose frames cannot be read: of an unknown version or build configuration. */
    uint64_t (*unsupported)(const void *self);
    void (*metrics)(const void *self, struct metric_set *set);
    void (*free)(void *self);
};

extern const struct interpreter interpreter_cpython;
extern const struct interpreter interpreter_v8;
extern const struct interpreter interpreter_hotspot;
