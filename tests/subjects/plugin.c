/* The library that loader.c loads. */
#include <signal.h>

void plugin_work(volatile sig_atomic_t *over);

__attribute__((noinline)) static void plugin_leaf(volatile sig_atomic_t *over)
{
    volatile unsigned x = 1;
    while (!*over)
        x = x * 3 + 1;
}

void plugin_work(volatile sig_atomic_t *over)
{
    plugin_leaf(over);
    __asm__ volatile("" ::: "memory");
}
