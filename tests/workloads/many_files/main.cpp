// Goes through the functions of all libraries, from file to file, ROUNDS times: `PROGRAM ROUNDS`, at SIGUSR1.
#include "../workload.h"

#define EACH(X)                                                                                              \
    X(0)                                                                                                     \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) \
        X(20) X(21) X(22) X(23)
#define DECLARED(N) extern "C" void enter_##N(int);
#define LISTED(N)   enter_##N,

EACH(DECLARED)
static void (*const libraries[])(int) = {EACH(LISTED)};
static const int depths[] = {0, 7, 19};

int main(int argc, char **argv)
{
    workload_end_after(0);
    workload_ready(nullptr);
    workload_wait_to_fire();
    for (int left = argc > 1 ? atoi(argv[1]) : 1; left > 0; left--)
        for (auto enter : libraries)
            for (int depth : depths)
                enter(depth);
    return workload_end();
}
