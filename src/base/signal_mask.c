/* See signal_mask.h. */
#include "base/signal_mask.h"

void signal_mask_block(sigset_t *ret_before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, ret_before);
}

void signal_mask_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

int signal_mask_create_thread(pthread_t *ret, void *(*run)(void *context), void *context)
{
    sigset_t before;
    signal_mask_block(&before);
    const int r = pthread_create(ret, NULL, run, context);
    signal_mask_restore(&before);
    return -r;
}
