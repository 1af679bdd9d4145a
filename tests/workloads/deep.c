/* Recursion to a given depth: `deep DEPTH [SECONDS]`. The frames differ in size (a third of them keep a buffer), so
 * that a walker that guesses instead of using the unwind table fails at once. Also built static, static-pie, no-pie,
 * stripped and with separate debug information. */
#include "workload.h"

#include <string.h>

KEEP static void deep_leaf(void)
{
    WORKLOAD_BURN();
}

KEEP static int recurse(int depth);

KEEP static int recurse_wide(int depth)
{
    volatile char room[200];
    room[depth % 200] = (char)depth;
    int below = recurse(depth);
    STAY;
    return below + room[depth % 200];
}

KEEP static int recurse(int depth)
{
    if (depth <= 0) {
        deep_leaf();
        STAY;
        return 0;
    }
    int below = depth % 3 == 0 ? recurse_wide(depth - 1) : recurse(depth - 1);
    STAY;
    return below + depth;
}

int main(int argc, char **argv)
{
    int depth = argc > 1 ? atoi(argv[1]) : 20;
    char *stack = malloc((size_t)(depth + 3) * 24 + 64);
    if (!stack || depth < 0)
        return 1;
    char *end = stpcpy(stack, "main");
    for (int i = depth; i >= 0; i--) {
        end = stpcpy(end, ";recurse");
        if (i > 0 && i % 3 == 0)
            end = stpcpy(end, ";recurse_wide");
    }
    stpcpy(end, ";deep_leaf");
    workload_end_after(workload_seconds(argc, argv, 2));
    workload_ready(stack);
    int sum = recurse(depth);
    STAY;
    free(stack);
    return workload_end() + (sum & 0);
}
