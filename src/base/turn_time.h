/* The time of one turn of the main thread: how long the turn begins work that could also wait for the next turn, and
 * how long it waits for helper processes. The loop sets it; code on the same thread asks between two items of work, and
 * before it waits. A thread that never begins a turn has no limits.
 *
 * A signal handler can interrupt: until turn_time_resume, the time of every thread counts as over. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A main thread that has done nothing for so long counts as hung. */
#define TURN_HUNG_NS 10000000000ull

/* Begins a turn of the calling thread: it begins items for `items_ns` from now on, and waits for `waits_ns` at most. */
void turn_time_begin(uint64_t items_ns, uint64_t waits_ns);
/* The calling thread has no limits from here on. */
void turn_time_end(void);

/* Whether the turn must leave further items to the next one. The caller still does one item in each turn, so that the
 * work goes on however slow the machine is. */
bool turn_time_is_over(void);
/* Likewise, after half of the time for items. The first part of a turn asks this, so that the second part has time. */
bool turn_time_is_half_over(void);
/* How long a wait of at most `max_ms` may last; 0: the caller must not wait. */
unsigned turn_time_wait_ms(unsigned max_ms);

/* Async-signal-safe. Waits in progress ask turn_time_is_interrupted several times a second. */
void turn_time_interrupt(void);
bool turn_time_is_interrupted(void);
void turn_time_resume(void);
