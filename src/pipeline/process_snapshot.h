/* Writes the processes that exist when --record-events begins as process lifecycle records, so that the recording is
 * self-contained and can be replayed after they have ended. Reads all of /proc once. */
#pragma once

#include <stdint.h>

struct processes;
struct record_writer;

/* Writes records with time `time_ns`, which must be before the first sample and before processes were watched; later
 * changes have records of their own. Processes that end meanwhile are skipped. -errno only if the file cannot be
 * written. */
int process_snapshot_write(struct processes *processes, struct record_writer *writer, uint64_t time_ns);
