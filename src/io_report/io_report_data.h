/* Gathers what processes did with files into a report (model/io_report.h): sums the threads of each process, and keeps
 * the heatmap within 200 intervals. */
#pragma once

#include "base/cleanup.h"
#include "model/io_report.h"

#include <stdbool.h>
#include <stdint.h>

struct io_report_data;

/* `source` is borrowed: an I/O source that was opened with `by_access`. -ENOMEM. */
int io_report_data_new(void *source, struct io_report_data **ret);
void io_report_data_free(struct io_report_data *d);
DEFINE_FREEP(io_report_data)

/* To be called several times a second, so that the kernel's tables have room; `is_last` when the source has been
 * stopped. -errno: some operations may be missing. */
int io_report_data_take(struct io_report_data *d, bool is_last);

/* Whether the process used files, by the entries taken so far. */
bool io_report_data_has_process(const struct io_report_data *d, uint32_t pid);
/* Makes a process part of the report, even without I/O. `command`, `user`: used if the process has used no files.
 * -ENOMEM.
 */
int io_report_data_add_process(struct io_report_data *d, uint32_t pid, const char *command, uint32_t user);

/* After the last one: files, processes, heatmap, losses. The other fields of `*ret` are left as they are. It borrows
 * from `d`. -ENOMEM. */
int io_report_data_finish(struct io_report_data *d, uint64_t end_ns, struct io_report *ret);
