/* Threads that wait, each in a function of its own and for a reason of its own, woken by the main thread; two more
 * share one CPU. At the end they print for each thread how long it existed, by its own clock and at most (from before
 * its creation until it was gone), how much of that it had a CPU, how much it waited for one, by the kernel's count
 * (schedstat), and how often it waited. `waits SECONDS FILE`: FILE is written to and synced, FILE.fifo created and
 * removed. Starts when its standard input has a line or ends. */
#include "workload.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BEAT_NS  10000000
#define SHORT_NS 150000

static sem_t beat;
static int pipe_ends[2], poll_ends[2], pair_ends[2], udp, file, event, timer;
static char fifo_path[4096];
static struct sockaddr_in udp_address = {.sin_family = AF_INET};

static void nap(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

KEEP static void wait_in_sleep(void)
{
    nap(BEAT_NS);
}

KEEP static void wait_in_short(void)
{
    nap(SHORT_NS);
}

static void take_number(int fd)
{
    uint64_t number;
    if (read(fd, &number, sizeof(number)) != sizeof(number))
        workload_over = 1;
}

KEEP static void wait_in_timer(void)
{
    take_number(timer);
}

KEEP static void wait_in_event(void)
{
    take_number(event);
}

/* Until another process opens the other end. */
KEEP static void wait_in_fifo(void)
{
    const int fd = open(fifo_path, O_RDONLY);
    if (fd < 0)
        workload_over = 1;
    else
        close(fd);
    nap(BEAT_NS / 10); /* otherwise it would still be open when it is opened again */
}

KEEP static void wait_in_lock(void)
{
    sem_wait(&beat);
}

static void take_byte(int fd)
{
    char byte;
    if (read(fd, &byte, 1) != 1)
        workload_over = 1;
}

KEEP static void wait_in_pipe(void)
{
    take_byte(pipe_ends[0]);
}

KEEP static void wait_in_unix(void)
{
    take_byte(pair_ends[0]);
}

KEEP static void wait_in_socket(void)
{
    char byte;
    recv(udp, &byte, 1, 0);
}

KEEP static void wait_in_poll(void)
{
    struct pollfd fds[2] = {{.fd = poll_ends[0], .events = POLLIN}, {.fd = udp, .events = 0}};
    poll(fds, 2, -1);
    take_byte(poll_ends[0]);
}

KEEP static void wait_in_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        nap(BEAT_NS);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

KEEP static void wait_in_disk(void)
{
    static char block[4096];
    block[0]++;
    if (pwrite(file, block, sizeof(block), 0) != sizeof(block) || fsync(file) < 0)
        workload_over = 1;
}

KEEP static void wait_in_queue(void)
{
    for (volatile int i = 0; i < 100000; i++)
        ;
    sched_yield();
}

static struct waiter {
    const char *name;
    void (*wait)(void);
    pthread_t thread;
    long tid, rounds;
    double born, lived, cpu, queued;
} waiters[] = {
    {.name = "sleep", .wait = wait_in_sleep},   {.name = "lock", .wait = wait_in_lock},     {.name = "pipe", .wait = wait_in_pipe},
    {.name = "unix", .wait = wait_in_unix},     {.name = "socket", .wait = wait_in_socket}, {.name = "poll", .wait = wait_in_poll},
    {.name = "child", .wait = wait_in_child},   {.name = "disk", .wait = wait_in_disk},     {.name = "queue", .wait = wait_in_queue},
    {.name = "queue", .wait = wait_in_queue},   {.name = "short", .wait = wait_in_short},   {.name = "timer", .wait = wait_in_timer},
    {.name = "event", .wait = wait_in_event},   {.name = "fifo", .wait = wait_in_fifo},
};
#define WAITERS (sizeof(waiters) / sizeof(waiters[0]))

static double seconds_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double queued_seconds(void)
{
    unsigned long long ran = 0, queued = 0;
    FILE *schedstat = fopen("/proc/thread-self/schedstat", "re");
    if (schedstat && fscanf(schedstat, "%llu %llu", &ran, &queued) != 2)
        queued = 0;
    if (schedstat)
        fclose(schedstat);
    return (double)queued / 1e9;
}

static void *live(void *argument)
{
    struct waiter *w = argument;
    const double begin = seconds_of(CLOCK_MONOTONIC);
    if (w->wait == wait_in_queue) {
        cpu_set_t first;
        CPU_ZERO(&first);
        CPU_SET(0, &first);
        sched_setaffinity(0, sizeof(first), &first);
    }
    for (; !workload_over; w->rounds++)
        w->wait();
    w->tid = syscall(SYS_gettid);
    w->queued = queued_seconds();
    w->cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    w->lived = seconds_of(CLOCK_MONOTONIC) - begin;
    return NULL;
}

/* A joined thread has not yet exited in the kernel. */
static void await_end(long tid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%ld", tid);
    while (access(path, F_OK) == 0)
        nap(1000000);
}

static void open_other_end(void)
{
    const int fd = open(fifo_path, O_WRONLY | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
}

static void feed(void)
{
    const uint64_t one = 1;
    nap(BEAT_NS);
    open_other_end();
    sem_post(&beat);
    if (write(event, &one, sizeof(one)) < 0 || write(pipe_ends[1], "", 1) < 0 || write(poll_ends[1], "", 1) < 0 || write(pair_ends[1], "", 1) < 0 ||
        sendto(udp, "", 1, 0, (struct sockaddr *)&udp_address, sizeof(udp_address)) < 0)
        workload_over = 1;
}

int main(int argc, char **argv)
{
    socklen_t size = sizeof(udp_address);
    const struct itimerspec beats = {{0, BEAT_NS}, {0, BEAT_NS}};
    double end;
    udp_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    file = open(argc > 2 ? argv[2] : "/dev/null", O_WRONLY | O_CREAT, 0600);
    event = eventfd(0, 0);
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    snprintf(fifo_path, sizeof(fifo_path), "%s.fifo", argc > 2 ? argv[2] : "/tmp/sonde-waits");
    if (sem_init(&beat, 0, 0) || pipe(pipe_ends) || pipe(poll_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair_ends) || udp < 0 ||
        file < 0 || event < 0 || timerfd_settime(timer, 0, &beats, NULL) || mkfifo(fifo_path, 0600) || bind(udp, (struct sockaddr *)&udp_address, size) || getsockname(udp, (struct sockaddr *)&udp_address, &size))
        return 1;
    workload_ready(NULL);
    getchar();
    for (size_t i = 0; i < WAITERS; i++) {
        waiters[i].born = seconds_of(CLOCK_MONOTONIC);
        pthread_create(&waiters[i].thread, NULL, live, &waiters[i]);
        pthread_setname_np(waiters[i].thread, waiters[i].name);
    }
    end = seconds_of(CLOCK_MONOTONIC) + workload_seconds(argc, argv, 1);
    while (!workload_over && seconds_of(CLOCK_MONOTONIC) < end)
        feed();
    workload_over = 1;
    feed(); /* so that each of them notices it */
    for (size_t i = 0; i < WAITERS; i++) {
        const struct waiter *w = &waiters[i];
        while (pthread_tryjoin_np(w->thread, NULL)) {
            open_other_end(); /* it may have come too late for the last one */
            nap(1000000);
        }
        await_end(w->tid);
        printf("thread %s %ld lived %.6f at most %.6f cpu %.6f queued %.6f rounds %ld\n", w->name, w->tid, w->lived,
               seconds_of(CLOCK_MONOTONIC) - w->born, w->cpu, w->queued, w->rounds);
    }
    unlink(fifo_path);
    return 0;
}
