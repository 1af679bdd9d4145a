/* A program whose tasks or locks the flight recorder reads: the value of `recorder_programs`, by process. */
#pragma once

#include "probes/python.h"

#define RECORDER_PROGRAMS_MAX 1024

struct recorder_program {
    __u32 is_go; /* its layout is in `go_labels` */
    __u32 reserved;
    struct python_layout python; /* otherwise */
};
_Static_assert(sizeof(struct recorder_program) == 72, "table format");
