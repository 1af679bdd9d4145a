/* The library of library_user.c. */
#include "fire.h"

volatile unsigned long sink;
static inline __attribute__((always_inline)) void inner(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        sink += i * 7;
        FIRE();
    }
}
__attribute__((noinline)) void outer(unsigned n)
{
    sink += n;
    inner(n);
    FIRE();
}
