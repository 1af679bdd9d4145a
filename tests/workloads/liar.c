/* A program that looks like a Go program of VERSION, and gives its threads goroutines with labels; some of them are
 * corrupt. At SIGUSR1 it makes ROUNDS rounds: burn_true with the labels key=value, burn_lies with others, CALLS calls
 * of getppid() each. LIST: how labels are stored (Go 1.24 and later: a list; before: a map); LABELS and CURG: offsets
 * of the labels in a goroutine, and of the goroutine in a thread. Not optimized: the program never reads its own
 * writes. */
#include "workload.h"

#include <string.h>

#define CALLS  10
#define ROUNDS 5

__attribute__((section(".go.buildinfo"), used)) char info[64] =
    "\xff Go buildinf:\b\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" VERSION;
struct g {
    char before[0x30];
    struct m *m;
    char between[LABELS - 0x38];
    const void *labels;
};
struct m {
    char before[CURG];
    struct g *curg;
};
extern __thread struct g *tlsg __asm__("runtime.tlsg");
__thread struct g *tlsg = 0;

#define BURNS(name)                                                                                                    \
    KEEP static void name(void)                                                                                        \
    {                                                                                                                  \
        for (int i = 0; i < CALLS; i++)                                                                                \
            WORKLOAD_SYSTEM_CALL();                                                                                    \
    }
BURNS(burn_true)
BURNS(burn_lies)

struct string {
    const char *text;
    uint64_t bytes;
};
#if LIST
struct labels {
    struct string *list;
    uint64_t count, room;
};
#else
struct bucket {
    uint8_t top[8];
    struct string keys[8], values[8];
};
struct map {
    uint64_t count;
    uint8_t flags, log2;
    uint16_t overflows;
    uint32_t seed;
    struct bucket *buckets;
};
#endif

static struct g g, other;
static struct m m = {.curg = &g};
static int lies;

static void lie(struct g *as, const void *labels)
{
    g.labels = labels;
    tlsg = as;
    burn_lies();
    tlsg = 0;
    lies += CALLS;
}

static void go_round(void)
{
#if LIST
    struct string pair[] = {{"key", 3}, {"value", 5}}, bad[] = {{"key", 3}, {(const char *)8, 1ull << 40}};
    struct labels good = {pair, 1, 1}, nowhere = {(struct string *)16, 3, 3}, torn = {bad, 1, 1};
    const void *set = &good,
               *sets[] = {&nowhere, &torn, (const void *)24, (const void *)~0ull, (const void *)(1ull << 62)};
#else
    struct bucket bucket = {.top = {0, 9}, .keys = {{0}, {"key", 3}}, .values = {{0}, {"value", 5}}},
                  holes = {.top = {9, 9, 9, 9, 9, 9, 9, 9}};
    for (int i = 0; i < 8; i++)
        holes.keys[i] = holes.values[i] = (struct string){(const char *)8, ~0ull};
    struct map good = {.count = 1, .buckets = &bucket}, large = {.count = 9, .log2 = 1, .buckets = &bucket},
               nowhere = {.count = 1, .buckets = (void *)16}, torn = {.count = 8, .buckets = &holes};
    struct map *to_good = &good, *to_large = &large, *to_nowhere = &nowhere, *to_torn = &torn, *to_null = 0,
               *wild = (void *)~7ull;
    const void *set = &to_good, *sets[] = {&to_large, &to_nowhere, &to_torn, &to_null, &wild, (const void *)24};
#endif
    for (unsigned i = 0; i < sizeof(sets) / sizeof(*sets); i++)
        lie(&g, sets[i]);
    lie((struct g *)40, set); /* unmapped */
    m.curg = &other;
    other.m = (struct m *)&g;
    lie(&g, set); /* a goroutine of another thread */
    m.curg = 0;
    lie(&g, set);
    m.curg = &g;
    g.m = 0;
    lie(&g, set);
    other.m = g.m = &m;
    g.labels = set;
    tlsg = &g;
    burn_true();
    tlsg = 0;
}

int main(void)
{
    g.m = other.m = &m;
    workload_end_after(0);
    workload_ready(NULL);
    workload_wait_to_fire();
    for (int i = 0; i < ROUNDS; i++)
        go_round();
    printf("true %d\nlies %d\n", ROUNDS * CALLS, lies);
    return workload_end();
}
