/* Which launches of a window had their stack taken: up to LAUNCHES_PER_TICK (graphs: LAUNCHES_GRAPHS_PER_TICK) in a
 * tick of 100 ms all of them, above that a random choice of about as many. Any thread, without locks; a launch waits
 * for nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LAUNCHES_PER_TICK        100
#define LAUNCHES_GRAPHS_PER_TICK 2

struct launches_totals {
    uint64_t launches, stacks;
};

/* Forgets everything. `window` differs from that of earlier windows. No other thread may be in a function here. */
void launches_begin(uint32_t window);

/* A launch begins in this thread: decides, and fires the probe if its stack is to be taken. `correlation` is CUPTI's
 * number of the call, never 0, and becomes the number of the launch. A call inside another call (the driver's in one of
 * the runtime) belongs to the outer one, whichever of both numbers CUPTI's records name. */
void launches_enter(uint32_t correlation, bool is_graph);
/* A call ends in this thread. Returns whether the thread is now in none of them. */
bool launches_exit(void);

/* The launch that the call `correlation` belongs to; 0: its stack was not taken, or it is too long ago. */
uint32_t launches_find(uint32_t correlation);

/* A tick has passed: adapts the share of launches whose stack is taken. */
void launches_tick(void);

void launches_totals(struct launches_totals *ret);
