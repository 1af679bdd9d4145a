/* Processes of I/O counters: their names, and whether they have ended. */
#pragma once

#include "probes/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IO_SCRIPT_BYTES 64

struct io_process_seen;

/* Zero except for `source`, borrowed (sources/io/io.h), before the first call; to be cleared at the end. */
struct io_processes {
    void *source;
    struct io_process_seen *seen; /* in this round */
};

/* Begins a round: forgets which processes have ended, and which were counted. */
void io_processes_clear(struct io_processes *p);

/* Whether the process has ended; the same for the whole round. */
bool io_processes_have_ended(struct io_processes *p, uint32_t process);

/* True when it is called for the first time in this round with this group (any address) and process. */
bool io_processes_is_first(struct io_processes *p, const void *group, uint32_t process);

/* The name of a process, also of one that has ended, of less than IO_COMMAND_BYTES; "": not known. Valid until the
 * round ends. */
const char *io_processes_command(struct io_processes *p, uint32_t process);

/* What the process runs if it is an interpreter: "journal.py" (base/script_name.h); "" if it has ended, or is called by
 * that name. Reads /proc at each call. */
void io_processes_script(struct io_processes *p, uint32_t process, char out[IO_SCRIPT_BYTES]);
