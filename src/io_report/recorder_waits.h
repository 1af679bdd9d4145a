/* Which threads of a report wait for the reads of other threads: reads the flight recorder while the report is
 * recorded, and adds up the waits (diagnose/path/read_waits.h). */
#pragma once

#include "base/cleanup.h"
#include "model/io_report.h"
#include "sources/source.h"

#include <stdbool.h>
#include <stdint.h>

struct io_report_data;
struct io_report_target;
struct recorder_waits;

/* Memory for the recorder's rings (shared_tables_options.recorder_bytes). */
uint64_t recorder_waits_memory(void);

/* Attaches and starts the recorder. `services`, with its tables, `target` and `data` are borrowed. -errno: there are no
 * records; the entry in `report` says why. */
int recorder_waits_new(const struct source_services *services, const struct io_report_target *target,
                       struct io_report_data *data, struct attach_report *report, struct recorder_waits **ret);
void recorder_waits_free(struct recorder_waits *w);
DEFINE_FREEP(recorder_waits)

/* To be called several times a second, and with `is_last` at the end, after the last io_report_data_take. Bounds its
 * CPU time: where there is much to read, or no memory, it leaves out some of the time, which is then not observed. */
void recorder_waits_take(struct recorder_waits *w, uint64_t now_ns, bool is_last);

/* After the last one. Before io_report_data_finish: makes the processes of the waiting threads part of the report.
 * -ENOMEM. */
int recorder_waits_add_processes(struct recorder_waits *w);
/* After it: sets the fields of threads and waits of `*ret`, which borrows from `w`. -ENOMEM. */
int recorder_waits_finish(struct recorder_waits *w, struct io_report *ret);
