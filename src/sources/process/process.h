/* Process lifecycle events: the source of signal "process". It uses no shared tables and has no options. Pipeline
 * thread only. */
#pragma once

#include "model/program_start.h"
#include "sources/source.h"

extern const struct source source_process;

/* The program that process `pid` started at or after `since_ns` (CLOCK_MONOTONIC). False: it is not known. */
bool process_source_find_start(void *process_source, uint32_t pid, uint64_t since_ns, struct program_start *ret);
