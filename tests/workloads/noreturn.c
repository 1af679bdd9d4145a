/* The last instruction of a function is the call of one that never returns, so the return address belongs to the next
 * function: names and unwind rules must be looked up for the call, one byte before. `noreturn [SECONDS]` */
#include "workload.h"

#include <setjmp.h>

static jmp_buf out;

KEEP __attribute__((noreturn)) static void never_returns(int x)
{
    WORKLOAD_BURN();
    longjmp(out, x);
}

KEEP __attribute__((noreturn)) static void ends_in_call(int x)
{
    never_returns(x + 1);
}

/* The function after it, with a different frame. */
KEEP static int innocent_neighbour(int x)
{
    volatile char room[512];
    room[x % 512] = 1;
    return room[(x * 7) % 512];
}

int main(int argc, char **argv)
{
    workload_end_after(workload_seconds(argc, argv, 1));
    workload_ready("main;ends_in_call;never_returns");
    if (setjmp(out) == 0)
        ends_in_call(argc);
    return workload_end() + (innocent_neighbour(argc) & 0);
}
