/* See route_sample.h. The probability is a power of two, which follows the number of requests in a window. */
#include "aggregate/route_sample.h"

#define WINDOW_SHIFT 30
#define SHIFT_MAX    8
#define IDLE_WINDOWS SHIFT_MAX /* windows without a request: at one step each, all steps down are made */

static uint32_t random_of(uint64_t id)
{
    id = (id ^ id >> 32) * 0x9e3779b97f4a7c15ull;
    id = (id ^ id >> 29) * 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(id >> 32);
}

static void begin_window(struct route_sample *s, uint64_t window)
{
    if (window - s->window > IDLE_WINDOWS)
        s->shift = 0;
    else if (s->shift && s->window_requests <= ROUTE_SAMPLE_WINDOW << (s->shift - 1))
        s->shift--;
    s->window = window;
    s->window_requests = s->window_entered = 0;
}

uint32_t route_sample_weight(struct route_sample *s, uint64_t id, uint64_t end_ns, uint32_t weight, bool is_full)
{
    const uint64_t window = end_ns >> WINDOW_SHIFT;
    if (window > s->window)
        begin_window(s, window);
    const uint32_t shift = is_full && weight <= UINT32_MAX >> s->shift ? s->shift : 0;
    s->window_requests++;
    if (random_of(id) & ((1u << shift) - 1))
        return 0;
    if (++s->window_entered > ROUTE_SAMPLE_WINDOW && is_full && s->shift < SHIFT_MAX) {
        s->shift++;
        s->window_entered = 1;
    }
    return weight << shift;
}
