/* What an I/O report shows that costs time and can be changed: created by diagnose/io/io_findings.c, written by the
 * formats of `sonde io report`. Plain data; strings are static or the report's. */
#pragma once

#include "model/io_report.h"

#include <stddef.h>
#include <stdint.h>

#define IO_FINDINGS_MAX           16
#define IO_FINDING_FIGURES        8
#define IO_FINDING_SENTENCE_BYTES 400

enum io_severity { IO_SEVERITY_LOW, IO_SEVERITY_MEDIUM, IO_SEVERITY_HIGH };

enum io_unit { IO_UNIT_COUNT, IO_UNIT_NS, IO_UNIT_BYTES };

struct io_figure {
    const char *name; /* "operations"; without its unit; NULL: not used, nor those after it */
    enum io_unit unit;
    uint64_t value;
};

struct io_finding {
    const char *name;      /* stable: "small_accesses" */
    const char *operation; /* "read" or "write"; "": the finding is about neither */
    enum io_severity severity;
    double share;     /* of the observed time (io_findings.h); above 1 where a process does several things at once */
    uint64_t time_ns; /* that it explains, of all processes */
    const struct io_report_file *file; /* the worst one; NULL: the finding is not about files */
    size_t other_files;
    uint32_t process; /* index of io_report.processes: the one that it costs most */
    struct io_figure figures[IO_FINDING_FIGURES];
    char sentence[IO_FINDING_SENTENCE_BYTES]; /* what to change; ASCII, without names of files and processes */
};

static inline const char *io_severity_name(enum io_severity severity)
{
    static const char *const names[] = {"low", "medium", "high"};
    return names[severity];
}
