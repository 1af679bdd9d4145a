/* Process lifecycle events: the source of signal "process". It uses no shared tables and has no options. Pipeline
 * thread only. */
#pragma once

#include "sources/source.h"

extern const struct source source_process;

/* True: the program that process `pid` started at or after `since_ns` (CLOCK_MONOTONIC) has no environment variables of
 * OpenTelemetry. False: it may have. */
bool process_source_lacks_service(void *process_source, uint32_t pid, uint64_t since_ns);
