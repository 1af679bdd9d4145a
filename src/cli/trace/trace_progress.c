/* Progress line of `sonde trace`; see trace_progress.h. */
#include "cli/trace/trace_progress.h"

#include "base/clock.h"
#include "base/units.h"

#include <stdio.h>
#include <unistd.h>

#define PROGRESS_NS 200000000

struct trace_progress trace_progress_begin(void)
{
    return (struct trace_progress){.is_terminal = isatty(STDERR_FILENO), .next_ns = clock_monotonic_ns() + PROGRESS_NS};
}

void trace_progress_update(struct trace_progress *p, const char *path, uint64_t position, uint64_t size)
{
    char read[32], whole[32];
    const uint64_t now = p->is_terminal ? clock_monotonic_ns() : 0;
    if (!p->is_terminal || now < p->next_ns)
        return;
    p->shown = true;
    p->next_ns = now + PROGRESS_NS;
    units_format_size(position, read, sizeof(read));
    if (size)
        fprintf(stderr, "\r\033[Kreading %s: %s of %s", path, read, units_format_size(size, whole, sizeof(whole)));
    else
        fprintf(stderr, "\r\033[Kreading %s: %s", path, read);
    fflush(stderr);
}

void trace_progress_end(struct trace_progress *p)
{
    if (p->shown)
        fprintf(stderr, "\r\033[K");
    p->shown = false;
}
