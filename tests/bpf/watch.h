/* Runs one source and collects its records until there are enough. */
#pragma once

#include "base/clock.h"
#include "sources/cpu/cpu.h"
#include "sources/offcpu/offcpu.h"
#include "sources/process/process.h"
#include "sources/source.h"

#include "probes/process.h"
#include "probes/unwind/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ENOUGH 20

struct watch {
    const struct source *source;
    void *self;
    struct batch *batch;
    struct shared_tables *tables;
    bool shares_tables; /* they are another watch's */
};

struct watch_options {
    struct task_filter filter;
    uint32_t sample_hz;
    const struct sampling_rules *rules;
    const struct sample_event *event;
    uint64_t sampling_seed;
    size_t ring_bytes, table_bytes;
    struct off_cpu_options off_cpu;
    const void *settings;         /* of the source, if it is another one */
    struct shared_tables *tables; /* another watch's; NULL: its own */
};

extern const struct watch_options watch_defaults;

struct watch watch_begin(const struct source *source, const struct watch_options *options);
/* Tables for these options, which the caller frees. */
struct shared_tables *watch_tables(const struct watch_options *options, bool links);
struct source_services watch_services(const struct watch_options *options, struct shared_tables *tables);
struct unwind_tables *watch_unwind_tables(const struct watch *w);
/* Counts the losses since the begin. Only after all programs have ended. */
struct losses watch_losses(const struct watch *w);
/* Ends the recording and asserts that nothing was lost. */
void watch_end(struct watch *w);
/* As watch_end, but losses whose bit, 1 << LOSS_*, is in `allowed` may have happened. */
void watch_end_despite(struct watch *w, uint64_t allowed);
/* Calls `check` for every record until it has returned true `enough` times. */
void watch_until(struct watch *w, size_t enough, bool (*check)(const struct record_header *, void *), void *context);

/* Forks a child that runs `work`, which writes a byte to `ready` when it is about to be recorded and never returns.
 * The child ends with the test program. */
pid_t watch_child(void (*work)(int ready));

/* Switches a CPU off or on; returns false where that is not possible. */
bool watch_set_online(unsigned cpu, bool online);
