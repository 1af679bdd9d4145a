/* See turn_time.h. Each thread has its own times; the interruption is for all threads, because a signal handler can run
 * on any of them. */
#include "base/turn_time.h"

#include "base/clock.h"

#include <stdatomic.h>

static _Thread_local struct {
    bool is_limited;
    uint64_t half_ns, items_end_ns, waits_end_ns; /* CLOCK_MONOTONIC */
} turn;

static atomic_bool is_interrupted;

void turn_time_begin(uint64_t items_ns, uint64_t waits_ns)
{
    const uint64_t now_ns = clock_monotonic_ns();
    turn.is_limited = true;
    turn.half_ns = now_ns + items_ns / 2;
    turn.items_end_ns = now_ns + items_ns;
    turn.waits_end_ns = now_ns + waits_ns;
}

void turn_time_end(void)
{
    turn.is_limited = false;
}

static bool is_after(uint64_t end_ns)
{
    return turn_time_is_interrupted() || (turn.is_limited && clock_monotonic_ns() >= end_ns);
}

bool turn_time_is_over(void)
{
    return is_after(turn.items_end_ns);
}

bool turn_time_is_half_over(void)
{
    return is_after(turn.half_ns);
}

unsigned turn_time_wait_ms(unsigned max_ms)
{
    if (turn_time_is_interrupted())
        return 0;
    if (!turn.is_limited)
        return max_ms;
    const uint64_t now_ns = clock_monotonic_ns(),
                   left_ms = turn.waits_end_ns > now_ns ? (turn.waits_end_ns - now_ns) / 1000000 : 0;
    return left_ms < max_ms ? (unsigned)left_ms : max_ms;
}

void turn_time_interrupt(void)
{
    atomic_store(&is_interrupted, true);
}

bool turn_time_is_interrupted(void)
{
    return atomic_load(&is_interrupted);
}

void turn_time_resume(void)
{
    atomic_store(&is_interrupted, false);
}
