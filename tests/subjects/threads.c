/* Threads with names, each busy in a function of its own, and a main thread that sleeps. `threads [SECONDS]`
 * With SUBJECT_FIRE=N each of the two fires N times. */
#include "subject.h"

#include <pthread.h>

static volatile int fired_threads;

#define BURN_IN_ONE_OF_TWO()                                                                                 \
    do {                                                                                                     \
        volatile uint64_t x_ = 2;                                                                            \
        int fired_ = 0;                                                                                      \
        while (!subject_over) {                                                                              \
            x_ = x_ * 5 + 1;                                                                                 \
            if (!subject_firings || fired_)                                                                  \
                continue;                                                                                    \
            for (; fired_ < subject_firings; fired_++)                                                       \
                SUBJECT_SYSTEM_CALL();                                                                       \
            if (__atomic_add_fetch(&fired_threads, 1, __ATOMIC_SEQ_CST) == 2)                                \
                subject_over = 1;                                                                            \
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
    subject_end_after(subject_seconds(argc, argv, 1));
    pthread_t red, blue;
    pthread_create(&red, NULL, work_of_red, NULL);
    pthread_setname_np(red, "red");
    pthread_create(&blue, NULL, work_of_blue, NULL);
    pthread_setname_np(blue, "blue painter");
    printf("thread red ...;work_of_red\nthread blue painter ...;work_of_blue\n");
    subject_ready(NULL);
    pthread_join(red, NULL);
    pthread_join(blue, NULL);
    return subject_end();
}
