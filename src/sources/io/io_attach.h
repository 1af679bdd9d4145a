/* Loads and attaches the I/O programs, in the variant that the kernel accepts. Used by sources/io/io.c alone. */
#pragma once

#include "model/attach.h"
#include "sources/io/io.h"

struct io_bpf;

/* Adds an entry to `report`, and one for block devices where they are wanted: they may fail alone. The programs count
 * nothing until enabled. The caller destroys `*ret`. -errno: no variant works. */
int io_attach(const struct source_services *services, const struct io_options *options, struct attach_report *report,
              struct io_bpf **ret);
