/* A function without debug information in a unit that has it. */
#include "fire.h"

volatile unsigned long sink;
__attribute__((noinline)) void before(void)
{
    sink++;
}
__attribute__((noinline, nodebug)) void hot(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        sink += i * 7;
        FIRE();
    }
}
int main(void)
{
    for (int i = 0; i < 5; i++) {
        before();
        hot(4);
    }
}
