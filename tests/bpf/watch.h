/* Watching one source at work: its records as they come, until there are enough of them. */
#pragma once

#include "base/clock.h"
#include "sources/source.h"

#include "probes/cpu.h"
#include "probes/process.h"

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
/* Ends the watch and says that nothing was lost on the way. */
void watch_end(struct watch *w);
/* Calls `look` for every record until it has returned true `enough` times. */
void watch_until(struct watch *w, size_t enough, bool (*look)(const struct record_header *, void *), void *context);

/* A child that does `work`, which writes a byte to `ready` when it is about to be watched and never returns; it ends
 * with us. */
pid_t watch_child(void (*work)(int ready));

/* Switches a CPU off or on; false where that cannot be done. */
bool watch_set_online(unsigned cpu, bool online);
