/* The rules of io_findings.h. Each function appends its findings. */
#pragma once

#include "diagnose/io/io_findings.h"
#include "diagnose/io/io_observed.h"

/* What explains less of the observed time is no finding: the measurement itself costs about as much. */
#define IO_RULE_MIN_SHARE 0.01

/* About files as each process used them. `files`: of io_files_by_name. */
void io_rules_of_files(const struct io_report *report, const struct io_report_file *const *files,
                       struct io_observed *observed, struct io_findings *findings);
/* Compares each process with the others that run the same program. `observed->processes`: in the report's order at
 * first; the function sorts them. */
void io_rules_of_processes(const struct io_report *report, struct io_observed *observed, struct io_findings *findings);
/* Finds threads that wait for reads of other threads. */
void io_rules_of_input(const struct io_report *report, struct io_findings *findings);

/* Appends an unused finding; never NULL, as IO_FINDINGS_MAX is more than the rules can find. */
struct io_finding *io_rules_new_finding(struct io_findings *findings, const char *name, const char *operation,
                                        uint64_t time_ns, double share);
void io_rules_put_figure(struct io_finding *finding, const char *name, enum io_unit unit, uint64_t value);
