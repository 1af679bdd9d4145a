/* Records of slow operations: those that have ended, from the ring of io.bpf.c; and those that go on, which a walk over
 * all tasks finds once a second (probes/io_pending.bpf.c). Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/attach.h"
#include "model/loss.h"

#include <stdbool.h>
#include <stdint.h>

struct batch;
struct io_bpf;
struct io_slow_records;

/* `bpf` is borrowed, and loaded. Without the walk, which needs Linux 5.15, the entry in `report` says so. -errno. */
int io_slow_records_new(struct io_bpf *bpf, uint64_t slow_ns, struct attach_report *report,
                        struct io_slow_records **ret);
void io_slow_records_free(struct io_slow_records *s);
DEFINE_FREEP(io_slow_records)

/* Becomes readable when an operation was slow. Borrowed. */
int io_slow_records_fd(const struct io_slow_records *s);

/* Walks if it is time to, and `is_enabled`; then appends all records. 0, or an error of libbpf. */
int io_slow_records_drain(struct io_slow_records *s, bool is_enabled, struct batch *batch);

void io_slow_records_losses(const struct io_slow_records *s, struct losses *losses);
