/* Threads with names, each busy in a function of its own, and a main thread that sleeps. `threads [SECONDS]` */
#include "subject.h"

#include <pthread.h>

KEEP static void *work_of_red(void *unused)
{
    SUBJECT_BURN();
    return unused;
}

KEEP static void *work_of_blue(void *unused)
{
    volatile uint64_t x = 2;
    while (!subject_over)
        x = x * 5 + 1;
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
