/* Threads with names, each busy in a function of its own, and a main thread that sleeps. `threads [SECONDS]`
 * With WORKLOAD_FIRE=N each of the two fires N times. */
#include "workload.h"

#include <pthread.h>

static volatile int fired_threads;

#define BURN_IN_ONE_OF_TWO()                                                                                 \
    do {                                                                                                     \
        volatile uint64_t x_ = 2;                                                                            \
        int fired_ = 0;                                                                                      \
        while (!workload_over) {                                                                              \
            x_ = x_ * 5 + 1;                                                                                 \
            if (!workload_firings || fired_)                                                                  \
                continue;                                                                                    \
            for (; fired_ < workload_firings; fired_++)                                                       \
                WORKLOAD_SYSTEM_CALL();                                                                       \
            if (__atomic_add_fetch(&fired_threads, 1, __ATOMIC_SEQ_CST) == 2)                                \
                workload_over = 1;                                                                            \
        }                                                                                                    \
    } while (0)

KEEP static void *work_of_red(void *unused)
{
    BURN_IN_ONE_OF_TWO();
    return unused;
}

KEEP static void *work_of_blue(void *unused)
{
    BURN_IN_ONE_OF_TWO();
    return unused;
}

int main(int argc, char **argv)
{
    workload_end_after(workload_seconds(argc, argv, 1));
    pthread_t red, blue;
    pthread_create(&red, NULL, work_of_red, NULL);
    pthread_setname_np(red, "red");
    pthread_create(&blue, NULL, work_of_blue, NULL);
    pthread_setname_np(blue, "blue painter");
    printf("thread red ...;work_of_red\nthread blue painter ...;work_of_blue\n");
    workload_ready(NULL);
    pthread_join(red, NULL);
    pthread_join(blue, NULL);
    return workload_end();
}
