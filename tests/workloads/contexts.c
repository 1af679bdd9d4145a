/* Two threads that publish their request as in OTEP 4947 (contexts_library.c), and print it: "ids burn_outer-TID
 * TRACE_ID SPAN_ID". In burn_outer and nap_outer they work for it; in burn_torn and nap_torn the record is being
 * written; in burn_unlinked and nap_unlinked no record is set. `contexts [LIBRARY]`, the latter if compiled to load it.
 * With WORKLOAD_FIRE=N they wait for SIGUSR1, then do N rounds with a getppid() in each of burn_*, and exit. */
#include "workload.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct record {
    uint8_t trace_id[16], span_id[8], valid, flags;
    uint16_t size;
};
#ifdef LOADED
static void (*context_set)(const void *);
#else
void context_set(const void *record);
#endif
static volatile uint64_t sink;
static volatile sig_atomic_t is_fired;
static long firings;

#define BURNS(name, factor)                                                                                            \
    __attribute__((noinline)) static void name(void)                                                                   \
    {                                                                                                                  \
        for (uint64_t i = 0; !firings && i < 2000000; i++)                                                             \
            sink += i * (factor);                                                                                      \
        if (firings)                                                                                                   \
            WORKLOAD_SYSTEM_CALL();                                                                                    \
        sink += (factor);                                                                                              \
    }
BURNS(burn_outer, 3)
BURNS(burn_torn, 5)
BURNS(burn_unlinked, 7)
#define NAPS(name, microseconds)                                                                                       \
    __attribute__((noinline)) static void name(void)                                                                   \
    {                                                                                                                  \
        usleep(microseconds);                                                                                          \
        sink++;                                                                                                        \
    }
NAPS(nap_outer, 201)
NAPS(nap_torn, 202)
NAPS(nap_unlinked, 203)

static void on_fire(int number)
{
    (void)number;
    is_fired = 1;
}

static void print_ids(const struct record *r)
{
    char text[256];
    int at = snprintf(text, sizeof(text), "ids burn_outer-%d ", gettid());
    for (int i = 0; i < 24; i++)
        at += snprintf(text + at, sizeof(text) - (size_t)at, i == 16 ? " %02x" : "%02x", ((const uint8_t *)r)[i]);
    puts(text);
    fflush(stdout);
}

static void *work(void *number)
{
    struct record mine = {.valid = 1}, torn = {.valid = 0};
    memset(mine.trace_id, 0x10 + (int)(intptr_t)number, 16);
    memset(mine.span_id, 0xa0 + (int)(intptr_t)number, 8);
    mine.trace_id[0] = 1;
    mine.span_id[7] = 9;
    memcpy(torn.trace_id, mine.trace_id, 24);
    print_ids(&mine);
    while (firings && !is_fired)
        usleep(1000);
    for (long i = 0; !firings || i < firings; i++) {
        context_set(&mine);
        burn_outer();
        nap_outer();
        context_set(&torn);
        burn_torn();
        nap_torn();
        context_set(NULL);
        burn_unlinked();
        nap_unlinked();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
#ifdef LOADED
    void *library = dlopen(argv[1], RTLD_NOW);
    context_set = library ? dlsym(library, "context_set") : NULL;
    if (!context_set)
        return fprintf(stderr, "%s\n", dlerror()), 1;
#endif
    pthread_t threads[2];
    firings = getenv("WORKLOAD_FIRE") ? atol(getenv("WORKLOAD_FIRE")) : 0;
    signal(SIGUSR1, on_fire);
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    workload_ready(NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
