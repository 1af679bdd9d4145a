/* Loads and attaches the I/O programs by one of several methods. Used by sources/io/io.c alone. */
#pragma once

#include "model/attach.h"
#include "sources/io/io.h"

struct io_bpf;
struct io_functions;

struct io_attached {
    struct io_bpf *bpf;
    struct io_functions *functions; /* NULL: attached by tracepoints */
};

/* Attaches by `method`, IO_METHOD_BEST: the first that works, and adds an entry to `report`. The programs count nothing
 * until enabled. `*ret` is for io_attach_free. -errno: no method works. */
int io_attach(const struct io_options *options, struct attach_report *report, enum io_method method,
              struct io_attached *ret);
void io_attach_free(struct io_attached *a);
