/* Threads that wait and their wakers, each in a function of its own: `let_go` wakes the thread in `wait_here` (a
 * semaphore), `send_here` the one in `receive_here` (a packet to this machine); `sleep_here` ends by a timer. A child,
 * renamed "feeder", writes in `feed_here` to the one in `read_here`. `wakers SECONDS`. */
#include "workload.h"

#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BEAT_NS 10000000

static sem_t semaphore;
static int udp, pipe_ends[2];
static struct sockaddr_in address = {.sin_family = AF_INET};

KEEP static void sleep_here(void)
{
    const struct timespec time = {0, BEAT_NS};
    nanosleep(&time, NULL);
}

KEEP static void wait_here(void)
{
    sem_wait(&semaphore);
}

KEEP static void let_go(void)
{
    sem_post(&semaphore);
}

KEEP static void receive_here(void)
{
    char byte;
    recv(udp, &byte, 1, 0);
}

KEEP static void send_here(void)
{
    if (sendto(udp, "", 1, 0, (struct sockaddr *)&address, sizeof(address)) < 0)
        workload_over = 1;
}

KEEP static void read_here(void)
{
    char byte;
    if (read(pipe_ends[0], &byte, 1) != 1)
        workload_over = 1;
}

KEEP static void feed_here(void)
{
    if (write(pipe_ends[1], "", 1) != 1)
        workload_over = 1;
}

static const struct {
    const char *name;
    void (*wait)(void);
} waiters[] = {{"waiter", wait_here}, {"receiver", receive_here}, {"reader", read_here}, {"sleeper", sleep_here}};
#define WAITERS (sizeof(waiters) / sizeof(waiters[0]))

static void *live(void *argument)
{
    const size_t i = (size_t)argument;
    prctl(PR_SET_NAME, waiters[i].name);
    while (!workload_over)
        waiters[i].wait();
    return NULL;
}

static pid_t start_feeder(void)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "feeder");
    for (;;) {
        sleep_here();
        feed_here();
    }
}

int main(int argc, char **argv)
{
    socklen_t size = sizeof(address);
    pthread_t threads[WAITERS];
    struct timespec now;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    if (sem_init(&semaphore, 0, 0) || pipe(pipe_ends) || udp < 0 || bind(udp, (struct sockaddr *)&address, size) ||
        getsockname(udp, (struct sockaddr *)&address, &size))
        return 1;
    const pid_t feeder = start_feeder();
    if (feeder < 0)
        return 1;
    for (size_t i = 0; i < WAITERS; i++)
        pthread_create(&threads[i], NULL, live, (void *)i);
    workload_ready(NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (const time_t end = now.tv_sec + (time_t)workload_seconds(argc, argv, 1); !workload_over && now.tv_sec < end; clock_gettime(CLOCK_MONOTONIC, &now)) {
        sleep_here();
        let_go();
        send_here();
    }
    workload_over = 1;
    let_go(); /* so that each of them notices it */
    send_here();
    for (size_t i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
    kill(feeder, SIGKILL);
    waitpid(feeder, NULL, 0);
    return 0;
}
