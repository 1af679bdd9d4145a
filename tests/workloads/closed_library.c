/* A library with a destructor, like C++'s static objects: run by __cxa_finalize, which __do_global_dtors_aux calls.
 * The latter is in the compiler's crtstuff.o and has no call frame information, only a frame pointer. */
#include "workload.h"

extern void *__dso_handle;
int __cxa_atexit(void (*function)(void *), void *argument, void *library);

volatile sig_atomic_t *closed_over, *closed_firings;

__attribute__((noinline, used)) static void closed_leaf(void *argument)
{
    (void)argument;
    WORKLOAD_BURN_UNTIL(*closed_over, *closed_firings);
}

__attribute__((constructor)) static void begin(void)
{
    __cxa_atexit(closed_leaf, NULL, &__dso_handle);
}
