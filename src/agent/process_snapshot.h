/* The processes that were there before a recording of the wire began, as wire records of the same kind as those that
 * tell of later ones: with them a file of records is whole in itself and can be replayed when the processes are gone.
 * Reads all of /proc once; made only for --record-events. */
#pragma once

#include <stdint.h>

struct processes;
struct record_writer;

/* Records of the time `time_ns`: before the first sample, and so before processes were watched; what they did since
 * then is told by records of its own. Processes that end meanwhile are left out. -errno only when the file cannot be
 * written. */
int process_snapshot_write(struct processes *processes, struct record_writer *writer, uint64_t time_ns);
