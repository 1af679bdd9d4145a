/* Reads a profile from a pprof file (profile.proto of github.com/google/pprof, as written by `go tool pprof`, perf
 * converters and Sonde), compressed with gzip or zstd, or plain. */
#pragma once

#include "model/profile.h"

#include <stddef.h>
#include <stdint.h>

#define PPROF_FILE_MAX_BYTES ((size_t)1 << 30) /* decompressed */
#define PPROF_TEXT_BYTES     160

struct pprof_about {
    char type[PPROF_TEXT_BYTES], unit[PPROF_TEXT_BYTES]; /* of the selected value type: "cpu", "nanoseconds" */
    uint64_t samples; /* the sum of the value type "samples", or the values divided by the period if it has their
                       * unit; 0: neither exists */
    bool is_exact;    /* values are counts or bytes with a period of one: every event was recorded, not sampled */
    uint64_t without; /* samples whose value of this type is 0, which are skipped */
    char why[PPROF_TEXT_BYTES]; /* description of an error; "": the errno suffices */
};

/* Reads the values of type `type` (NULL: the file's default type, else the last) as the weights of `*ret`, whatever
 * their unit, and as its counts the numbers of samples if the file contains them or a usable period. -EBADMSG: not a
 * profile, or damaged; -ENOENT: no values of that type; -ERANGE: negative values, as in differences; else a read
 * error. */
int pprof_file_read(const char *path, const char *type, struct profile **ret, struct pprof_about *ret_about);

/* The same for a decompressed message in memory. */
int pprof_read(const void *data, size_t size, const char *type, struct profile **ret, struct pprof_about *ret_about);
