/* A file that remapper.c maps and calls; REMAPPED is the function's name. It calls getppid() once. */
#include "workload.h"

unsigned REMAPPED(unsigned seed);
unsigned REMAPPED(unsigned seed)
{
    volatile unsigned x = seed;
    for (int i = 0; i < 150000; i++)
        x = x * 3 + 1;
    WORKLOAD_SYSTEM_CALL();
    return x;
}
