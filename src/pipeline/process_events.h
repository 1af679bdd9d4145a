/* Applies process lifecycle records to the table of processes and to per-process data, and finds out which
 * processes mapped code in a turn. Part of the pipeline (pipeline_private.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct pipeline;
struct record_header;

/* Takes one RECORD_PROCESS_* of the current batch. */
void process_events_take(struct pipeline *p, const struct record_header *record);

/* The record with this index executes a program, whose file's mapping record follows shortly afterwards. Applies that
 * early, so that samples in between are resolved with it. */
void process_events_apply_early_mapping(struct pipeline *p, size_t exec);

/* The end of a turn: publishes the processes that mapped code, as far as the turn has time; the others are published
 * when they are sampled. */
void process_events_end_turn(struct pipeline *p);

/* Removes the data of processes that exited some seconds before `now_ns`: no record of them can follow. As far as the
 * turn has time. */
void process_events_forget_exited(struct pipeline *p, uint64_t now_ns);
