/* When a packet is sent again, and when its sender gives up: exponential back-off with jitter, the receiver's
 * Retry-After or RetryInfo, limits on attempts and time, and the deadline at shutdown. Pure: time and
 * randomness are arguments. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct otlp_retry_limits {
    unsigned attempts_max; /* per packet; at least 1 */
    unsigned pause_max_ms; /* upper bound of the back-off; a receiver may ask for a longer pause */
    uint64_t give_up_ns;   /* no attempt begins that long after the first one; 0: no limit */
};

/* State of one packet. */
struct otlp_retry {
    struct otlp_retry_limits limits;
    uint64_t begun_ns; /* first attempt */
    unsigned failed;   /* attempts */
};

/* Before the first attempt. All times are CLOCK_MONOTONIC. */
void otlp_retry_begin(struct otlp_retry *retry, const struct otlp_retry_limits *limits, uint64_t now_ns);

/* After a failed attempt that is worth repeating. True: the next attempt is due in *ret_pause_ms. False: give
 * up. `closed_ns`: when the shutdown began (0: it did not); the pause does not outlast its deadline.
 * `retry_after_ms`: what the receiver asked for, 0: nothing. */
bool otlp_retry_next(struct otlp_retry *retry, uint64_t now_ns, uint64_t closed_ns, uint32_t retry_after_ms,
                     uint64_t random, unsigned *ret_pause_ms);

/* Time left to deliver packets after a shutdown began at `closed_ns`; UINT_MAX while it is 0. */
unsigned otlp_retry_left_ms(uint64_t closed_ns, uint64_t now_ns);

/* An HTTP Retry-After header, in seconds (libcurl converts dates), as `retry_after_ms`. Saturates. */
static inline uint32_t otlp_retry_after_ms(int64_t seconds)
{
    return seconds <= 0 ? 0 : seconds < UINT32_MAX / 1000 ? (uint32_t)seconds * 1000 : UINT32_MAX;
}
