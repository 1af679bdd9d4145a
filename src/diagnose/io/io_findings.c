/* Runs the rules over an I/O report and sorts their findings; see io_findings.h. */
#include "diagnose/io/io_findings.h"

#include "diagnose/io/io_rules.h"
#include "model/io_merge.h"

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
