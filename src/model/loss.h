/* Every way that observed data can be lost or incomplete: one list, counted everywhere under the same names and
 * exported as sonde_self_losses_total{reason="..."}. A new kind of loss is a new line here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LOSS_REASONS(X)                                                                                                \
    X(RING_FULL, "ring_full", "records that found the ring buffer to user space full")                                 \
    X(MAP_FULL, "map_full", "entries that found a kernel table full")                                                  \
    X(THROTTLED, "throttled", "samples the kernel withheld because sampling took too long")                            \
    X(MISSED, "missed", "runs of a probe that were skipped, mostly because another one was running on the same CPU")   \
    X(NO_UNWIND_TABLE, "no_unwind_table", "stacks cut because unwind tables or mappings were not known yet")           \
    X(TRUNCATED, "truncated", "stacks not walked to the thread's entry, for another reason")                           \
    X(UNNAMED, "unnamed", "samples with frames that have no symbol")                                                   \
    X(INTERPRETED, "interpreted", "stacks without all of an interpreter's frames, or with some that have no name")     \
    X(FILE_UNANSWERED, "file_unanswered", "samples with frames whose file system does not respond")                    \
    X(SIDEBAND, "sideband", "process lifecycle events that were lost; read again from /proc")                          \
    X(NO_PROCESS, "no_process", "samples of processes that could not be identified")                                   \
    X(NOT_KEPT, "not_kept", "samples, or events of the node, dropped because the memory for them was full")            \
    X(UNLINKED, "unlinked",                                                                                            \
      "samples, or stacks of waits, taken during a traced request and kept without a link to it")                      \
    X(UNLABELLED, "unlabelled", "samples, or stacks of waits, without all labels of their goroutine, or with one cut") \
    X(LINK_FORGOTTEN, "link_forgotten", "threads whose traced request was forgotten while they worked for it")         \
    X(SHED, "shed", "samples left out by the agent's own budget")                                                      \
    X(REQUEST_UNMATCHED, "request_unmatched", "requests whose end was never seen")                                     \
    X(REQUEST_UNBOUND, "request_unbound", "requests over TLS whose connection was not found")                          \
    X(REQUEST_NOT_DETAILED, "request_not_detailed",                                                                    \
      "requests counted without their latency breakdown, to keep within limits")                                       \
    X(STREAM_UNREAD, "stream_unread",                                                                                  \
      "sends of event streams that were not read to their end: too few tokens are counted")                            \
    X(CALL_UNCOUNTED, "call_uncounted", "calls of other services that found a kernel table full")                      \
    X(NOT_RESOLVED, "not_resolved", "records and waits that were not resolved in time when Sonde ended")               \
    X(DECODE, "decode", "malformed event records")

enum loss_reason {
#define X(id, name, help) LOSS_##id,
    LOSS_REASONS(X)
#undef X
        LOSS_COUNT
};

struct losses {
    uint64_t count[LOSS_COUNT];
    uint64_t stacks, incomplete_stacks; /* resolved stacks; incomplete: with at least one loss_is_of_stack */
};

/* Whether a sample with this loss is kept, with a stack that lacks frames or names. */
bool loss_is_of_stack(enum loss_reason reason);
/* The sum of the losses. */
uint64_t losses_of_stacks(const struct losses *losses);
/* Percentage of incomplete stacks, rounded up: 0 only if there are none. */
unsigned losses_incomplete_percent(const struct losses *losses);

/* "ring_full", and its meaning in a sentence. */
const char *loss_name(enum loss_reason reason);
const char *loss_help(enum loss_reason reason);
