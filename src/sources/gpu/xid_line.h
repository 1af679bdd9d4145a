/* A line of the kernel log in which NVIDIA's driver reports an error. Pure. */
#pragma once

#include <linux/types.h>

#include "probes/gpu.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads a record of /dev/kmsg, "PRIORITY,SEQUENCE,TIME,FLAGS;TEXT". True: the kernel itself wrote it (facility 0; lines
 * that programs write to /dev/kmsg have another one), and it is an Xid. Fills `ret`, with the time as the kernel has it
 * (CLOCK_MONOTONIC, as far as the kernel log keeps to it). */
bool xid_line_parse(const char *line, size_t size, struct gpu_xid *ret);
