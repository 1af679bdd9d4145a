/* Id generation. The mixer is SplitMix64's finaliser (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, 2014): a bijection, so that ids of one process never collide. */
#include "ids.h"

#include "clock.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t nth(uint64_t seed, uint64_t n)
{
    return mix(seed + n * UINT64_C(0x9e3779b97f4a7c15));
}

void trace_ids_seed(struct trace_ids *ids)
{
    atomic_store_explicit(&ids->next, 0, memory_order_relaxed);
    if (getrandom(ids->seed, sizeof(ids->seed), GRND_NONBLOCK) == (ssize_t)sizeof(ids->seed))
        return;
    /* a sandbox without getrandom, or a machine early in boot */
    ids->seed[0] = mix(trace_read_clock_ns(CLOCK_REALTIME));
    ids->seed[1] = mix(ids->seed[0] ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)ids);
}

uint64_t trace_ids_span(struct trace_ids *ids)
{
    uint64_t id;
    do
        id = nth(ids->seed[0], atomic_fetch_add_explicit(&ids->next, 1, memory_order_relaxed));
    while (id == 0);
    return id;
}

void trace_ids_trace(struct trace_ids *ids, uint8_t ret_trace_id[16])
{
    uint64_t half[2];
    half[0] = trace_ids_span(ids);
    half[1] = nth(ids->seed[1], half[0]);
    memcpy(ret_trace_id, half, sizeof(half));
}
