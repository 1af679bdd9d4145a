/* Demangles names in the confined process (name_process.h): a short name can keep libiberty busy for ever, or use up
 * its stack. A name that took too long is shown as it is. Not thread-safe. */
#pragma once

#include "model/metric.h"
#include "resolve/symbols/demangle.h"
#include "resolve/symbols/name_process.h"

/* Writes the demangled `symbol` to `out`. Waits for at most about 100 ms.
 * Returns 0, also for a name that is not mangled or that is known to take too long: `out` is then `symbol` itself.
 * -EAGAIN: the process cannot be asked at present; `out` is `symbol` itself, and a later call may succeed. After a name
 * that took too long, this lasts for a hundred times the CPU time that was lost. */
int demangler_demangle(struct name_process *p, const char *symbol, char out[DEMANGLED_MAX]);

/* Metrics of the process: names, and files that were unpacked. */
void demangler_metrics(const struct name_process *p, struct metric_set *set);
