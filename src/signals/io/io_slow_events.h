/* Events "io.slow", of an operation that took long, and "io.hung", of one that goes on: which file, and where in the
 * kernel its thread is. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

struct io_names;
struct io_slow_events;
struct record_header;
struct signal_services;

/* Both are borrowed. `hung_ns`: after which time an operation that goes on is an event. -ENOMEM. */
int io_slow_events_new(const struct signal_services *services, struct io_names *names, uint64_t hung_ns,
                       struct io_slow_events **ret);
void io_slow_events_free(struct io_slow_events *e);
DEFINE_FREEP(io_slow_events)

/* record_type.is_valid of RECORD_IO_SLOW. */
bool io_slow_check(const struct record_header *header);
/* Takes a record: emits an event, or keeps the stack for the one that follows. */
void io_slow_events_take(struct io_slow_events *e, const struct record_header *header);
