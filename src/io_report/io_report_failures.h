/* The failed operations of a report (model/io_failure.h), summed by process, file, operation and error. */
#pragma once

#include "base/cleanup.h"
#include "model/io_failure.h"

#include "probes/io.h"

#include <stddef.h>
#include <stdint.h>

struct io_report_failures;

/* -ENOMEM. */
int io_report_failures_new(void *io_source, struct io_report_failures **ret);
void io_report_failures_free(struct io_report_failures *f);
DEFINE_FREEP(io_report_failures)

/* Adds `count` failures. Those that do not fit any more count without a file. It reads the path
 * that a call named. -ENOMEM. */
int io_report_failures_add(struct io_report_failures *f, const struct io_error_key *key, uint64_t count);

/* Who names a file of a mount, and a process. */
struct io_report_namer {
    void *context;
    void (*file)(void *context, const struct io_key *key, char *ret, size_t size);
    uint32_t (*process)(void *context, uint32_t pid); /* its index in the report */
};

/* Lists them, errors that programs do not expect first, then by count. `*ret` is borrowed from `f`. -ENOMEM. */
int io_report_failures_list(struct io_report_failures *f, const struct io_report_namer *namer,
                            const struct io_failure **ret, size_t *ret_count);
