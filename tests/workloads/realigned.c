/* Functions that align the stack pointer and allocate a variable amount of stack: their unwind rules locate the caller
 * by a DWARF expression. `realigned [SECONDS]`, compiled with -mstackrealign. */
#include "workload.h"

#include <string.h>

KEEP static void realigned_leaf(char *room, char *wide)
{
    room[0] = wide[0];
    WORKLOAD_BURN();
}

KEEP static void realigned_dynamic(int size)
{
    _Alignas(64) char wide[64];
    char *room = __builtin_alloca((size_t)size);
    memset(room, size, (size_t)size);
    memset(wide, size, sizeof(wide));
    realigned_leaf(room, wide);
    STAY;
}

KEEP static void realigned_static(int size)
{
    _Alignas(64) volatile char wide[256];
    wide[size % 256] = 1;
    realigned_dynamic(size + wide[size % 256]);
    STAY;
}

int main(int argc, char **argv)
{
    workload_end_after(workload_seconds(argc, argv, 1));
    workload_ready("main;realigned_static;realigned_dynamic;realigned_leaf");
    realigned_static(100 + argc);
    STAY;
    return workload_end();
}
