/* Copying a process's context (OTEP 4719, "Process Context") out of its memory: a mapping named OTEL_CTX has a header
 * with signature, version, size, time of publication and the payload's address. Runs in the file helper: the memory may
 * lie in a dead file system, or be somebody's who never answers (userfaultfd). */
#pragma once

#include "base/buf.h"

#include <stdint.h>

#define PROCESS_CONTEXT_MAX_BYTES 65536 /* of a payload, as OpenTelemetry's own reader has it */

/* Where a context was found, and when it had been published; zeros: nothing is known yet. */
struct process_context_place {
    uint64_t address, published_ns;
};

/* Appends a struct process_context_place and the payload as it was at one moment; `proc_fd` is of proc_open. -EALREADY:
 * it is the one of `known`, unchanged; -ENOENT: there is none; -EAGAIN: it is being written; -EBADMSG: sizes or
 * addresses that lie; other errors of /proc. */
int process_context_copy(int proc_fd, const struct process_context_place *known, struct buf *to);
