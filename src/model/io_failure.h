/* Operations that failed alike: in a report of I/O, and in `sonde io`. Plain data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct io_failure {
    const char *error;     /* "ENOSPC"; a number where the C library has no name */
    const char *operation; /* "write" */
    const char *path;      /* of the file, or as the call named it; "": not known */
    uint32_t process;      /* index of io_report.processes */
    bool is_expected;      /* programs expect this error, as when they look for files that may not exist */
    uint64_t count;
};
