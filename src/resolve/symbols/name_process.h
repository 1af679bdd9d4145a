/* The process "sonde-names". Its libraries parse bytes that any user of the node may have written: it demangles names
 * (demangler.h) and unpacks .gnu_debugdata (unpacker.h). It is confined (base/sandbox.h), does one task at a time, and
 * is killed when a task takes too much CPU time; the input of that task is remembered and refused, and the process is
 * started again after a hundred times the CPU time that was lost. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name_process;

/* Starts the process: best called early, while the caller's memory that it shares is small. The caller frees `*ret`.
 * 0, -ENOMEM. A process that cannot be started is started again later. */
int name_process_new(struct name_process **ret);
/* Ends the process. */
void name_process_free(struct name_process *p);
DEFINE_FREEP(name_process)

/* ---- for demangler.c and unpacker.c ---- */

enum name_task { NAME_TASK_DEMANGLE, NAME_TASK_UNPACK, NAME_TASKS };

/* A message, of the caller or of the process. The input of a task is one or more messages, and so is its result. */
#define NAME_MESSAGE_BYTES 16384
struct name_message {
    uint32_t number; /* of the task: a reply to a task that was given up may still arrive */
    uint8_t task;    /* enum name_task */
    uint8_t is_last; /* nothing follows */
    int16_t error;   /* of a result: -errno */
    uint32_t size;
    char data[NAME_MESSAGE_BYTES];
};

struct name_task_counts {
    uint64_t begun, unanswered, refused;
};
const struct name_task_counts *name_process_counts(const struct name_process *p, enum name_task task);

/* Begins a task that may take `cpu_max_ns` of CPU time. 0; -EPERM: the input with this hash took too long before;
 * -EAGAIN: the process is busy with an earlier task, or not there at present, or the turn's time is over
 * (base/turn_time.h). */
int name_process_begin(struct name_process *p, enum name_task task, uint64_t input_hash, uint64_t cpu_max_ns);

/* Sends up to NAME_MESSAGE_BYTES of the input. 0; -EAGAIN: the process does not read at present; -EPIPE: it had ended
 * before, and the task is given up. */
int name_process_send(struct name_process *p, const void *data, size_t size, bool is_last);

/* Waits up to `wait_ms` for a part of the result, borrowed until the next call. 0; -EAGAIN: none yet; -EPIPE: the
 * process was ended, by the input or because of it. */
int name_process_receive(struct name_process *p, int wait_ms, const struct name_message **ret);

/* Gives the task up without blame: a demangled name may still arrive and is ignored, other tasks end the process. */
void name_process_abandon(struct name_process *p);
