/* Reads a file of Triton trace JSON as a sequence of records in file order: any size, in memory of one buffer; gzip
 * and zstd are decompressed. An invalid object is skipped and counted, and reading continues at the next text that
 * looks like a record; a truncated file is read up to its end. The report counts skipped objects. */
#pragma once

#include "base/cleanup.h"
#include "trace/model/triton_trace.h"

struct triton_file;

#define TRITON_RECORD_MAX_BYTES ((size_t)64 << 20) /* a larger object is skipped */

/* The records read from the file, and the skipped content. Offsets refer to decompressed bytes. */
struct triton_report {
    uint64_t bytes, records;
    uint64_t bad;             /* number of places with invalid objects */
    uint64_t bad_bytes;       /* skipped there */
    uint64_t first_bad;       /* offset */
    const char *first_reason; /* static */
    uint64_t odd;             /* objects with bytes in strings that JSON does not allow; kept */
    uint64_t first_odd;       /* offset of the object */
    bool is_cut;              /* the array is not closed */
    uint64_t cut;             /* offset after the last complete object */
    int error;                /* -errno that ended reading: 0, -ENODATA or -EBADMSG of decompression, or an I/O error */
};

int triton_file_open(const char *path, struct triton_file **ret);
void triton_file_free(struct triton_file *f);
DEFINE_FREEP(triton_file)

/* Returns 1 with a record that is valid until the next call, 0 at the end, -ENOMEM. Defects of the file appear only
 * in the report. -EILSEQ: the file does not begin like a trace. */
int triton_file_next(struct triton_file *f, struct triton_record *ret);

const struct triton_report *triton_file_report(const struct triton_file *f);

/* For progress reports: position in and size of the file on disk; size 0: unknown. */
uint64_t triton_file_position(const struct triton_file *f);
uint64_t triton_file_size(const struct triton_file *f);
