/* Calls a tiny function of a shared library for ever, through the PLT: a good share of the samples falls into the stub, where the
 * frame is not yet what the library's function will make of it. `plt [SECONDS]` */
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
