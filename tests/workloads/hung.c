/* A program that hangs in known ways: `hung deadlock` (two threads each wait for the lock that the other holds), `hung
 * deep DEPTH` (its only thread waits under DEPTH frames of a KiB) and `hung many COUNT` (COUNT threads wait, under 0
 * to 9 frames each). Whether all wait must be observed from outside. Exits by a signal. */
#include "workload.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t upper = PTHREAD_MUTEX_INITIALIZER, lower = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

KEEP static void take_second(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    STAY;
}

KEEP static void *take_upper_first(void *unused)
{
    pthread_mutex_lock(&upper);
    pthread_barrier_wait(&both);
    take_second(&lower);
    STAY;
    return unused;
}

KEEP static void *take_lower_first(void *unused)
{
    pthread_mutex_lock(&lower);
    pthread_barrier_wait(&both);
    take_second(&upper);
    STAY;
    return unused;
}

KEEP static void wait_for_ever(void)
{
    for (;;)
        pause();
}

KEEP static void descend(long depth)
{
    volatile char frame[1000];
    frame[depth % 1000] = 1;
    if (depth > 0)
        descend(depth - 1);
    else
        wait_for_ever();
    STAY;
    frame[0] = 1;
}

KEEP static void *wait_below(void *depth)
{
    descend((long)depth);
    STAY;
    return NULL;
}

int main(int argc, char **argv)
{
    const long number = argc > 2 ? atol(argv[2]) : 0;
    pthread_t threads[2];
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "deadlock") == 0) {
        pthread_barrier_init(&both, NULL, 2);
        pthread_create(&threads[0], NULL, take_upper_first, NULL);
        pthread_create(&threads[1], NULL, take_lower_first, NULL);
        workload_ready(NULL);
        pthread_join(threads[0], NULL);
    } else if (strcmp(argv[1], "many") == 0) {
        for (long i = 0; i < number; i++)
            if (pthread_create(&threads[0], NULL, wait_below, (void *)(i % 10)) != 0)
                return 1;
        workload_ready(NULL);
        wait_for_ever();
    } else {
        workload_ready(NULL);
        descend(number);
    }
    return 0;
}
