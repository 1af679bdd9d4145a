/* The library that loader.c loads. */
#include "workload.h"

void plugin_work(volatile sig_atomic_t *over, volatile sig_atomic_t *firings);

__attribute__((noinline)) static void plugin_leaf(volatile sig_atomic_t *over, volatile sig_atomic_t *firings)
{
    WORKLOAD_BURN_UNTIL(*over, *firings);
}

void plugin_work(volatile sig_atomic_t *over, volatile sig_atomic_t *firings)
{
    plugin_leaf(over, firings);
    __asm__ volatile("" ::: "memory");
}
