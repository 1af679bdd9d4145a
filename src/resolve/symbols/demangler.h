/* Demangles names in a process of its own. A name comes from a file that any user of the node may have written, and a
 * short one can keep libiberty busy for ever, or use up its stack. The process is confined (base/sandbox.h). It is
 * killed when a name takes too long, and started again; the name is remembered and shown as it is. Not thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/symbols/demangle.h"

struct demangler;

/* Starts the process: best called early, while the caller's memory that it shares is small. The caller frees `*ret`.
 * 0, -ENOMEM. A process that cannot be started is started again later. */
int demangler_new(struct demangler **ret);
/* Ends the process. */
void demangler_free(struct demangler *d);
DEFINE_FREEP(demangler)

/* Writes the demangled `symbol` to `out`. Waits for at most about 100 ms.
 * Returns 0, also for a name that is not mangled or that is known to take too long: `out` is then `symbol` itself.
 * -EAGAIN: the process cannot be asked at present; `out` is `symbol` itself, and a later call may succeed. After a name
 * that took too long, this lasts for a hundred times the CPU time that was lost. */
int demangler_demangle(struct demangler *d, const char *symbol, char out[DEMANGLED_MAX]);

void demangler_metrics(const struct demangler *d, struct metric_set *set);
