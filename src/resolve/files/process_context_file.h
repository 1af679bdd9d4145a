/* Copies a process's context (OTEP 4719, "Process Context") out of its memory. A mapping named OTEL_CTX has a header
 * with signature, version, size, time of publication and the payload's address. Runs in the file helper: the memory
 * may lie in a dead file system, or behind a userfaultfd that no process serves. */
#pragma once

#include "base/buf.h"

#include <stdint.h>

#define PROCESS_CONTEXT_MAX_BYTES 65536 /* payload limit, the same as that of OpenTelemetry's own reader */

/* Where a context was found and when it was published; all zeros: none is known yet. */
struct process_context_place {
    uint64_t address, published_ns;
};

/* Appends a struct process_context_place and a consistent copy of the payload. `proc_fd` is from proc_open.
 * -EALREADY: unchanged since `known`; -ENOENT: no context; -EAGAIN: it is being written; -EBADMSG: invalid sizes
 * or addresses; other errors of /proc. */
int process_context_copy(int proc_fd, const struct process_context_place *known, struct buf *to);
