/* SIGINT and SIGTERM as the end of a wait; see end_signals.h. */
#include "base/end_signals.h"

#include "base/clock.h"

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
    const uint64_t end_ns = clock_monotonic_ns() + wait_ns;
    for (uint64_t left_ns = wait_ns;;) {
        const struct timespec time = {(time_t)(left_ns / 1000000000), (long)(left_ns % 1000000000)};
        if (sigtimedwait(signals, NULL, &time) > 0)
            return true;
        const uint64_t now_ns = clock_monotonic_ns();
        if (errno != EINTR || now_ns >= end_ns) /* the kernel's own work for this thread interrupts it, too */
            return false;
        left_ns = end_ns - now_ns;
    }
}
