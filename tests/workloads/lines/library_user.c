/* Calls a function of library.c, and has events of its own. */
#include "fire.h"

void outer(unsigned n);
volatile unsigned long mine;
int main(void)
{
    for (unsigned i = 0; i < 5; i++) {
        outer(4);
        mine += i * 3;
        FIRE();
    }
    return 0;
}
