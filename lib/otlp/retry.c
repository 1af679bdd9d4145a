/* See retry.h. */
#include "retry.h"

#include <limits.h>

#define PAUSE_MS           500u /* after the first attempt; doubles with each further one */
#define DOUBLINGS_MAX      16
#define RETRY_AFTER_MAX_MS 30000u
#define CLOSE_MS           5000 /* for all packets that are left at shutdown */

void otlp_retry_begin(struct otlp_retry *retry, const struct otlp_retry_limits *limits, uint64_t now_ns)
{
    *retry = (struct otlp_retry){.limits = *limits, .begun_ns = now_ns};
}

static unsigned min_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Random within the upper half of the back-off: many senders must not return to a receiver at the same
 * moment. */
static unsigned backoff_ms(const struct otlp_retry *retry, uint64_t random)
{
    const unsigned doublings = retry->failed - 1, max_ms = retry->limits.pause_max_ms;
    const unsigned ms = doublings < DOUBLINGS_MAX ? min_of(PAUSE_MS << doublings, max_ms) : max_ms;
    return ms / 2 + (unsigned)(random % (ms / 2 + 1));
}

bool otlp_retry_next(struct otlp_retry *retry, uint64_t now_ns, uint64_t closed_ns, uint32_t retry_after_ms,
                     uint64_t random, unsigned *ret_pause_ms)
{
    if (++retry->failed >= retry->limits.attempts_max)
        return false;
    const unsigned backoff = backoff_ms(retry, random), after = min_of(retry_after_ms, RETRY_AFTER_MAX_MS);
    const unsigned ms = min_of(backoff > after ? backoff : after, otlp_retry_left_ms(closed_ns, now_ns));
    if (retry->limits.give_up_ns && now_ns + ms * 1000000ull - retry->begun_ns >= retry->limits.give_up_ns)
        return false;
    *ret_pause_ms = ms;
    return true;
}

unsigned otlp_retry_left_ms(uint64_t closed_ns, uint64_t now_ns)
{
    if (!closed_ns)
        return UINT_MAX;
    const uint64_t passed_ms = (now_ns > closed_ns ? now_ns - closed_ns : 0) / 1000000;
    return passed_ms + 1 < CLOSE_MS ? CLOSE_MS - (unsigned)passed_ms - 1 : 0;
}
