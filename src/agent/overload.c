/* See overload.h. */
#include "agent/overload.h"

#include "base/buf.h"

#include <stdio.h>

#define WAITED_SHARE  0.2
#define WAITED_MIN_NS 1000000 /* for each request */
#define BUSY_SHARE    0.8     /* of all CPUs */
#define USER_SHARE    0.01    /* a command with less of the CPUs' time is not named */

static void put_use(const struct cpu_use *use, struct buf *out)
{
    const double all_ns = (double)use->span_ns * use->cpus, busy = (double)use->all_ns / all_ns;
    buf_printf(out, "%s programs used %.0f %% of the node's CPU time", busy < BUSY_SHARE ? "although" : "because",
               busy < 1 ? busy * 100 : 100);
    for (size_t i = 0; i < use->user_count; i++) {
        const double share = (double)use->users[i].ns / all_ns;
        if (share >= USER_SHARE)
            buf_printf(out, "%s%s %.0f %%", i ? ", " : ": ", use->users[i].command[0] ? use->users[i].command : "?",
                       share * 100);
    }
}

bool overload_describe(const struct request_totals *requests, const struct cpu_use *use, char *out, size_t size)
{
    _cleanup_buf_ struct buf text = {.max_bytes = size};
    out[0] = '\0';
    if (requests->run_queue_ns < WAITED_SHARE * requests->time_ns ||
        requests->run_queue_ns < WAITED_MIN_NS * requests->explained || requests->run_queue_ns <= 0)
        return false;
    buf_printf(&text, "Requests spent %.0f %% of their explained time waiting for a CPU, ",
               requests->run_queue_ns / requests->time_ns * 100);
    if (use->span_ns && use->cpus)
        put_use(use, &text);
    else
        buf_puts(&text, "and no CPU samples show what used the CPUs");
    buf_putc(&text, '.');
    if (buf_error(&text) < 0)
        return false;
    snprintf(out, size, "%s", text.data);
    return true;
}
