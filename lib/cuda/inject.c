/* libsonde-cuda: NVIDIA's driver loads it into each program whose environment has CUDA_INJECTION64_PATH, and calls
 * InitializeInjection() when the program initializes CUDA. Then one thread sleeps, and looks five times a second
 * whether a recorder is attached (probes.h). While one is, it keeps a window open (window.h). The program itself never
 * waits for the recorder. */
#include "cuda/probes.h"
#include "cuda/window.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define LOOK_NS 200000000 /* outside a window */
#define TICK_NS 100000000 /* in a window */
#define EXIT_NS 500000000 /* the program's exit waits at most this long for the thread */

static pthread_mutex_t window_lock = PTHREAD_MUTEX_INITIALIZER; /* for the functions of window.h, and: */
static bool in_window;                                          /* a recorder is attached, even if CUPTI refused */

static void pass_time(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* With the lock held. */
static void follow_recorder(void)
{
    const bool wanted = cuda_probes_wanted();
    if (wanted && !in_window)
        window_open();
    else if (wanted)
        window_tick();
    else if (in_window)
        window_close(true);
    in_window = wanted;
}

static void *run_thread(void *nothing)
{
    (void)nothing;
    for (;;) {
        pthread_mutex_lock(&window_lock);
        follow_recorder();
        const bool ticks = in_window;
        pthread_mutex_unlock(&window_lock);
        pass_time(ticks ? TICK_NS : LOOK_NS);
    }
    return NULL;
}

/* In the child, only the thread that forked exists, and the driver supports no CUDA. The library's thread may have held
 * the lock at that moment, and cannot release it here. */
static void after_fork(void)
{
    window_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    in_window = false;
    window_fork();
}

static void at_exit(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += EXIT_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_mutex_timedlock(&window_lock, &until) != 0)
        return;
    if (in_window)
        window_close(false);
    /* Stays locked: the thread must not touch CUPTI while the process ends. */
}

static void start_thread(void)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    if (pthread_create(&thread, NULL, run_thread, NULL) == 0) {
        pthread_setname_np(thread, "sonde-cuda");
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int InitializeInjection(void);

/* Returns 1: loaded. A recorder that is attached already gets the first launch, too. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    static atomic_bool begun;
    if (atomic_exchange(&begun, true))
        return 1;
    pthread_atfork(NULL, NULL, after_fork);
    atexit(at_exit);
    pthread_mutex_lock(&window_lock);
    follow_recorder();
    pthread_mutex_unlock(&window_lock);
    start_thread();
    return 1;
}
