/* Runs the rules over an I/O report and sorts their findings; see io_findings.h. */
#include "diagnose/io/io_findings.h"

#include "diagnose/io/io_rules.h"
#include "model/io_merge.h"

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

static int compare_findings(const void *left, const void *right)
{
    const struct io_finding *a = left, *b = right;
    if (a->share != b->share)
        return a->share > b->share ? -1 : 1;
    return (a->time_ns < b->time_ns) - (a->time_ns > b->time_ns);
}

int io_findings_find(const struct io_report *report, struct io_findings *ret)
{
    _cleanup_io_observed_ struct io_observed observed = {0};
    _cleanup_free_ const struct io_report_file **files = NULL;
    struct io_findings findings = {0};
    int r = io_observed_measure(report, &observed);
    if (r == 0)
        r = io_files_by_name(report, &files);
    if (r < 0)
        return r;
    if (report->duration_ns) {
        io_rules_of_files(report, files, &observed, &findings);
        io_rules_of_processes(report, &observed, &findings);
        io_rules_of_input(report, &findings);
        qsort(findings.items, findings.count, sizeof(*findings.items), compare_findings);
    }
    *ret = findings;
    return 0;
}
