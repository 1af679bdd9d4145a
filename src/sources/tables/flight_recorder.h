/* The flight recorder: what the scheduler and the sockets of this node did in the last seconds (the records:
 * probes/recorder/recorder.h). BPF programs overwrite rings in two maps of the shared tables; this maps them and reads
 * intervals on demand. Owned by the shared tables. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/flight_window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flight_recorder;
struct recorder_file;

/* How many records each CPU's rings have: powers of two, 2 at least. */
struct flight_recorder_size {
    uint32_t cpus; /* possible ones */
    uint32_t scheduler_records, object_records;
};

/* The largest rings that fit into `bytes` for all CPUs together, about half for each of the two kinds. */
struct flight_recorder_size flight_recorder_size(uint64_t bytes, uint32_t cpus);

/* Maps the first two of the BPF maps, which must have this size; their descriptors are not kept, `files_fd` is
 * borrowed. Nothing is recorded yet. The caller frees `*ret`. -errno of mmap(2), -ENOMEM. */
int flight_recorder_new(int records_fd, int cpus_fd, int files_fd, const struct flight_recorder_size *size,
                        struct flight_recorder **ret);
void flight_recorder_free(struct flight_recorder *fr);
DEFINE_FREEP(flight_recorder)

/* Makes the programs record, or not. Older records are of no use once the programs record again: an unrecorded interval
 * looks like an interval without events. */
void flight_recorder_enable(struct flight_recorder *fr, bool is_enabled);
bool flight_recorder_is_enabled(const struct flight_recorder *fr);

/* Copies the records with times of from_ns to to_ns (CLOCK_MONOTONIC, both included) that the rings still have, of all
 * CPUs, by time; the newest `max_records` if there are more. `ret->complete_from_ns` is where completeness begins: the
 * newest of the rings' oldest times, when recording was enabled, or the first record of those that fitted. A window
 * that ends when nothing was recorded is empty and complete from UINT64_MAX. Never returns a record that was
 * overwritten meanwhile or is half written: records that are being written at the time of the call may be missing. 0,
 * -ENOMEM; the caller frees the window with flight_recorder_window_free. */
int flight_recorder_window(struct flight_recorder *fr, uint64_t from_ns, uint64_t to_ns, size_t max_records,
                           struct flight_window *ret);
/* Frees the records; the window is empty then. */
void flight_recorder_window_free(struct flight_window *window);

/* The file of a RECORDER_FILE, by its key. False: its name has been displaced by others'. */
bool flight_recorder_file(const struct flight_recorder *fr, uint64_t key, struct recorder_file *ret);

struct flight_recorder_stats {
    uint64_t scheduler_records, object_records; /* written since the start */
    uint64_t history_ns;                        /* from where records are complete to `now_ns`; 0: not recorded */
    uint64_t windows;
    uint64_t windows_overwritten; /* of them, those whose beginning had been overwritten */
};

struct flight_recorder_stats flight_recorder_stats(const struct flight_recorder *fr, uint64_t now_ns);
