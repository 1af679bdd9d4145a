/* What the rules share: how they add a finding; see io_rules.h. */
#include "diagnose/io/io_rules.h"

#include <assert.h>

/* A fifth of the time: the first thing to change. A twentieth: worth a change of its own, as run times commonly vary by
 * less. */
#define HIGH_SHARE   0.2
#define MEDIUM_SHARE 0.05

struct io_finding *io_rules_new_finding(struct io_findings *findings, const char *name, const char *operation,
                                        uint64_t time_ns, double share)
{
    assert(findings->count < IO_FINDINGS_MAX);
    struct io_finding *finding = &findings->items[findings->count++];
    *finding = (struct io_finding){.name = name, .operation = operation, .time_ns = time_ns, .share = share};
    finding->severity = share >= HIGH_SHARE     ? IO_SEVERITY_HIGH
                        : share >= MEDIUM_SHARE ? IO_SEVERITY_MEDIUM
                                                : IO_SEVERITY_LOW;
    return finding;
}

void io_rules_put_figure(struct io_finding *finding, const char *name, enum io_unit unit, uint64_t value)
{
    size_t i = 0;
    while (i < IO_FINDING_FIGURES && finding->figures[i].name)
        i++;
    assert(i < IO_FINDING_FIGURES);
    finding->figures[i] = (struct io_figure){name, unit, value};
}
