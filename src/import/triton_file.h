/* A file of Triton's trace JSON as a source of records, in the order of the file: any size, in memory of a buffer; gzip
 * and zstd unpacked on the way. An object that makes no sense is left out, counted, and reading goes on at the next one
 * that looks like a record; a file that ends in the middle is read up to there. What was left out stands in the report.
 */
#pragma once

#include "base/cleanup.h"
#include "model/triton_trace.h"

struct triton_file;

#define TRITON_RECORD_MAX_BYTES ((size_t)64 << 20) /* a larger object is left out */

/* What one file gave, and what of it was lost. Offsets are those of the unpacked bytes. */
struct triton_report {
    uint64_t bytes, records;
    uint64_t bad;             /* places where objects made no sense */
    uint64_t bad_bytes;       /* left out there */
    uint64_t first_bad;       /* offset */
    const char *first_reason; /* static */
    uint64_t odd;             /* objects with bytes in strings that JSON does not allow; they are kept */
    uint64_t first_odd;       /* offset of the object */
    bool is_cut;              /* the array is not closed */
    uint64_t cut;             /* offset behind the last whole object */
    int error; /* -errno of reading, which ended there: 0, -ENODATA or -EBADMSG of the packing, or the disk's */
};

int triton_file_open(const char *path, struct triton_file **ret);
void triton_file_free(struct triton_file *f);
DEFINE_FREEP(triton_file)

/* 1 with a record that is good until the next call, 0 at the end, -ENOMEM; what is wrong with the file is in the report
 * only. -EILSEQ: it does not even begin as a trace. */
int triton_file_next(struct triton_file *f, struct triton_record *ret);

const struct triton_report *triton_file_report(const struct triton_file *f);

/* For telling progress: of the file as it lies on the disk; 0 when its size is not known. */
uint64_t triton_file_position(const struct triton_file *f);
uint64_t triton_file_size(const struct triton_file *f);
