/* A program of 1024 functions: `wander SECONDS DEPTH` goes DEPTH calls deep, for a moment, from one function after the
 * other. A function's callee is determined by its number, which its name contains in octal, so a stack can be checked
 * frame by frame; and almost no two are equal. Copies of it with build ids of their own are as many programs, with as
 * many names and unwind tables. */
#include "workload.h"

typedef int wanderer(int depth);
static int on(unsigned number, int depth);

/* Buffers of many sizes, so that each has an unwind rule of its own. */
#define WANDERER(A, B, C, D)                                                                                 \
    KEEP static int wander_to_one_of_very_many_##A##B##C##D(int depth)                                       \
    {                                                                                                        \
        volatile char room[0##B##D * 8 + 8];                                                                 \
        room[0] = (char)depth;                                                                               \
        int sum = on(0##A##B##C##D, depth);                                                                  \
        STAY;                                                                                                \
        return sum + room[0];                                                                                \
    }
#define NAME(A, B, C, D) wander_to_one_of_very_many_##A##B##C##D,
#define EIGHT(X, A, B, C) X(A, B, C, 0) X(A, B, C, 1) X(A, B, C, 2) X(A, B, C, 3) X(A, B, C, 4) X(A, B, C, 5) X(A, B, C, 6) X(A, B, C, 7)
#define EIGHT_2(X, A, B)                                                                                     \
    EIGHT(X, A, B, 0) EIGHT(X, A, B, 1) EIGHT(X, A, B, 2) EIGHT(X, A, B, 3)                                  \
    EIGHT(X, A, B, 4) EIGHT(X, A, B, 5) EIGHT(X, A, B, 6) EIGHT(X, A, B, 7)
#define EIGHT_3(X, A)                                                                                        \
    EIGHT_2(X, A, 0) EIGHT_2(X, A, 1) EIGHT_2(X, A, 2) EIGHT_2(X, A, 3)                                      \
    EIGHT_2(X, A, 4) EIGHT_2(X, A, 5) EIGHT_2(X, A, 6) EIGHT_2(X, A, 7)

EIGHT_3(WANDERER, 0)
EIGHT_3(WANDERER, 1)
static wanderer *const wanderers[1024] = {EIGHT_3(NAME, 0) EIGHT_3(NAME, 1)};

KEEP static int wander_leaf(void)
{
    volatile int sum = 0;
    for (int i = 0; i < 100000 && !workload_over; i++)
        sum = sum + i;
    return sum;
}

/* Inlined into each: from 12 to 61, from 61 to 306. */
__attribute__((always_inline)) static inline int on(unsigned number, int depth)
{
    return depth <= 0 ? wander_leaf() : wanderers[(number * 5 + 1) % 1024](depth - 1);
}

int main(int argc, char **argv)
{
    int depth = argc > 2 ? atoi(argv[2]) : 40, sum = 0;
    workload_end_after(workload_seconds(argc, argv, 1));
    workload_ready(NULL);
    for (unsigned first = (unsigned)getpid(); !workload_over; first += 1021)
        sum += wanderers[first % 1024](depth);
    STAY;
    return workload_end() + (sum & 0);
}
