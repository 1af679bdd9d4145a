/* Runs one source and collects its records until there are enough. */
#pragma once

#include "base/clock.h"
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
};

extern const struct source_options watch_defaults;

struct watch watch_begin(const struct source *source, const struct source_options *options);
/* Ends the recording and asserts that nothing was lost. */
void watch_end(struct watch *w);
/* Calls `check` for every record until it has returned true `enough` times. */
void watch_until(struct watch *w, size_t enough, bool (*check)(const struct record_header *, void *), void *context);

/* Forks a child that runs `work`, which writes a byte to `ready` when it is about to be recorded and never returns.
 * The child ends with the test program. */
pid_t watch_child(void (*work)(int ready));

/* Switches a CPU off or on; returns false where that is not possible. */
bool watch_set_online(unsigned cpu, bool online);
