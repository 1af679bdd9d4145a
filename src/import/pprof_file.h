/* A profile out of a pprof file (profile.proto of github.com/google/pprof, as `go tool pprof`, perf's converters and
 * our own exporter write it), packed with gzip or zstd or plain. */
#pragma once

#include "model/profile.h"

#include <stddef.h>
#include <stdint.h>

#define PPROF_FILE_MAX_BYTES ((size_t)1 << 30) /* unpacked */
#define PPROF_TEXT_BYTES     160

struct pprof_about {
    char type[PPROF_TEXT_BYTES], unit[PPROF_TEXT_BYTES]; /* of the values that were taken: "cpu", "nanoseconds" */
    uint64_t samples; /* the sum of the type "samples", or what the values are of the period, where that has their unit;
                         0: there is neither */
    bool is_exact;    /* values are counts or bytes, and the period is one: every event is in them, none was sampled */
    uint64_t without; /* rows of samples without a value of this type (0), which are left out */
    char why[PPROF_TEXT_BYTES]; /* after an error, in words; "" where the errno says it all */
};

/* The values of type `type` (NULL: the one that the file calls its default, else the last) as the weight of `*ret`,
 * whatever their unit, and as its count the number of samples where the file tells it, or its period. -EBADMSG: no
 * profile, or damaged; -ENOENT: no values of that type; -ERANGE: negative values, as differences have them; else what
 * reading gives. */
int pprof_file_read(const char *path, const char *type, struct profile **ret, struct pprof_about *ret_about);

/* The same of an unpacked message in memory. */
int pprof_read(const void *data, size_t size, const char *type, struct profile **ret, struct pprof_about *ret_about);
