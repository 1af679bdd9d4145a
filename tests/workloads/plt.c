/* Calls a tiny function of a shared library in a loop, through the PLT: many samples hit the stub, where the frame is
 * not yet set up by the library's function. `plt [SECONDS]` */
#include "workload.h"

int plt_tiny(int x);

KEEP static int plt_caller(void)
{
    int x = 0;
    while (!workload_over)
        x = plt_tiny(x);
    return x;
}

int main(int argc, char **argv)
{
    workload_end_after(workload_seconds(argc, argv, 1));
    workload_ready("main;plt_caller");
    int x = plt_caller();
    STAY;
    return workload_end() + (x & 0);
}
