/* Launches by CUPTI's number of their call, in a table without chains: a call replaces the one SLOTS numbers before. */
#include "cuda/launches.h"

#include "cuda/probes.h"

#include <stdatomic.h>
#include <string.h>

#define SLOTS (1u << 16)
#define ALL   UINT32_MAX

struct rate {
    uint32_t per_tick;
    _Atomic uint32_t seen, taken; /* in this tick */
    _Atomic uint32_t share;       /* the stack is taken where a random number is not above it */
};

static struct rate launch_rate = {.per_tick = LAUNCHES_PER_TICK, .share = ALL};
static struct rate graph_rate = {.per_tick = LAUNCHES_GRAPHS_PER_TICK, .share = ALL};
static _Atomic uint64_t slots[SLOTS]; /* a call's number << 32 | that of its launch; 0: none */
static _Atomic uint64_t launch_count, stack_count;
static _Atomic uint32_t current_window;

/* The outer call that this thread is in. Valid in the window only: at its end, calls end unseen. */
static _Thread_local struct {
    uint32_t window, depth; /* depth: calls that this thread is in */
    uint32_t launch;        /* 0: no stack was taken */
} outer;

static void reset_rate(struct rate *r)
{
    atomic_store(&r->seen, 0);
    atomic_store(&r->taken, 0);
    atomic_store(&r->share, ALL);
}

void launches_begin(uint32_t window)
{
    memset((void *)slots, 0, sizeof(slots));
    reset_rate(&launch_rate);
    reset_rate(&graph_rate);
    atomic_store(&launch_count, 0);
    atomic_store(&stack_count, 0);
    atomic_store(&current_window, window);
}

/* A number that looks random, from one that counts (the finalizer of SplitMix64). */
static uint32_t scramble(uint64_t x)
{
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}

/* Twice the limit: the share follows the rate of the tick before, which may have been lower. */
static bool is_taken(struct rate *r, uint32_t correlation)
{
    atomic_fetch_add_explicit(&r->seen, 1, memory_order_relaxed);
    const uint64_t window = atomic_load_explicit(&current_window, memory_order_relaxed);
    if (scramble(window << 32 | correlation) > atomic_load_explicit(&r->share, memory_order_relaxed))
        return false;
    return atomic_fetch_add_explicit(&r->taken, 1, memory_order_relaxed) < 2 * r->per_tick;
}

static void remember(uint32_t correlation, uint32_t launch)
{
    atomic_store(&slots[correlation % SLOTS], (uint64_t)correlation << 32 | launch);
}

void launches_enter(uint32_t correlation, bool is_graph)
{
    const uint32_t window = atomic_load_explicit(&current_window, memory_order_relaxed);
    if (outer.depth && outer.window == window) {
        outer.depth++;
        if (outer.launch)
            remember(correlation, outer.launch);
        return;
    }
    const bool taken = is_taken(is_graph ? &graph_rate : &launch_rate, correlation);
    outer.window = window;
    outer.depth = 1;
    outer.launch = taken ? correlation : 0;
    atomic_fetch_add_explicit(&launch_count, 1, memory_order_relaxed);
    if (taken) {
        atomic_fetch_add_explicit(&stack_count, 1, memory_order_relaxed);
        remember(correlation, correlation);
        cuda_probes_launch(correlation);
    }
}

bool launches_exit(void)
{
    if (outer.depth == 0 || outer.window != atomic_load_explicit(&current_window, memory_order_relaxed))
        return true; /* it began before the window */
    return --outer.depth == 0;
}

uint32_t launches_find(uint32_t correlation)
{
    const uint64_t slot = atomic_load(&slots[correlation % SLOTS]);
    return correlation && slot >> 32 == correlation ? (uint32_t)slot : 0;
}

static void adapt(struct rate *r)
{
    const uint32_t seen = atomic_exchange(&r->seen, 0);
    atomic_store(&r->taken, 0);
    atomic_store(&r->share, seen <= r->per_tick ? ALL : (uint32_t)((uint64_t)ALL * r->per_tick / seen));
}

void launches_tick(void)
{
    adapt(&launch_rate);
    adapt(&graph_rate);
}

void launches_totals(struct launches_totals *ret)
{
    ret->launches = atomic_load(&launch_count);
    ret->stacks = atomic_load(&stack_count);
}
