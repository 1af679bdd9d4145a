/* SIGINT and SIGTERM as the end of a wait; see end_signals.h. */
#include "cli/end_signals.h"

#include <errno.h>
#include <time.h>

int end_signals_block(sigset_t *ret)
{
    sigemptyset(ret);
    sigaddset(ret, SIGINT);
    sigaddset(ret, SIGTERM);
    return sigprocmask(SIG_BLOCK, ret, NULL) < 0 ? -errno : 0;
}

bool end_signals_wait(const sigset_t *signals, uint64_t wait_ns)
{
    const struct timespec time = {(time_t)(wait_ns / 1000000000), (long)(wait_ns % 1000000000)};
    return sigtimedwait(signals, NULL, &time) > 0;
}
