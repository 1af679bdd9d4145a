/* The files of an I/O report, each as all processes together used it. Files are the same if their paths and mount
 * points are. */
#pragma once

#include "model/io_report.h"

#include <stdbool.h>

/* The largest size of each bin but the last, which has no limit. */
extern const uint64_t io_size_bounds[IO_REPORT_SIZES - 1];

struct io_merged_file {
    struct io_report_file sum; /* `process`: the one that spent the most time on it */
    uint32_t process_count;
};

/* Adds up files by path, those with the most time first. On success `*ret_files` is the caller's, to free(). 0, or
 * -ENOMEM. */
int io_merge_files(const struct io_report *report, struct io_merged_file **ret_files, size_t *ret_count);

/* Pointers to all files of the report, by path, then mount point, then process. On success `*ret_files` is the
 * caller's, to free(). 0, or -ENOMEM. */
int io_files_by_name(const struct io_report *report, const struct io_report_file ***ret_files);
bool io_files_have_one_name(const struct io_report_file *a, const struct io_report_file *b);

/* Adds the operations of `file` to `*sum`; names, block and process are left as they are. */
void io_merge_add(struct io_report_file *sum, const struct io_report_file *file);

/* Duration of all operations. */
uint64_t io_file_time_ns(const struct io_report_file *file);
/* All that is neither read nor write, syncs included. */
uint64_t io_file_metadata_operations(const struct io_report_file *file);
