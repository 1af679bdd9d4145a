/* What is known of a program from the moment of its start. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct program_start {
    uint64_t mount_namespace; /* inode number; 0: not known */
    bool
        lacks_service; /* its environment has no variables of OpenTelemetry, and need not be read; false: it may have */
};
