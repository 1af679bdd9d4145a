/* Grows without an end, by a mebibyte every 20 ms. */
#include "workload.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_BYTES (1 << 20)

KEEP static void grow_cache(void)
{
    char *memory = malloc(STEP_BYTES);
    if (memory)
        memset(memory, 1, STEP_BYTES);
    __asm__ volatile("" : : "r"(memory) : "memory");
    STAY;
}

int main(void)
{
    for (;;) {
        grow_cache();
        usleep(20000);
    }
}
