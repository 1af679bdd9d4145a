/* Reports for tests of I/O findings. Header only: each test is a program of its own. */
#pragma once

#include "diagnose/io/io_findings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#define S   UINT64_C(1000000000)
#define MS  UINT64_C(1000000)
#define US  UINT64_C(1000)
#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

static const struct io_report_process processes[] = {{100, "rank"}, {101, "rank"}, {102, "rank"},
                                                     {103, "rank"}, {104, "rank"}, {105, "torchrun"}};

static inline struct io_report report_of(const struct io_report_file *files, size_t count, size_t process_count)
{
    return (struct io_report){.title = "t",
                              .executable = "",
                              .job_id = "",
                              .duration_ns = 100 * S,
                              .processes = processes,
                              .process_count = process_count,
                              .files = files,
                              .file_count = count};
}

static inline struct io_findings find_in(const struct io_report *report)
{
    struct io_findings findings;
    assert_int_equal(io_findings_find(report, &findings), 0);
    return findings;
}

static inline const struct io_finding *find_named(const struct io_findings *findings, const char *name,
                                                  const char *operation)
{
    for (size_t i = 0; i < findings->count; i++)
        if (strcmp(findings->items[i].name, name) == 0 && strcmp(findings->items[i].operation, operation) == 0)
            return &findings->items[i];
    return NULL;
}

static inline bool has(const struct io_report_file *file, const char *name, const char *operation)
{
    const struct io_report report = report_of(file, 1, 1);
    const struct io_findings findings = find_in(&report);
    return find_named(&findings, name, operation) != NULL;
}

static inline uint64_t figure(const struct io_finding *finding, const char *name)
{
    for (size_t i = 0; i < IO_FINDING_FIGURES && finding->figures[i].name; i++)
        if (strcmp(finding->figures[i].name, name) == 0)
            return finding->figures[i].value;
    fail_msg("no figure %s", name);
    return 0;
}

/* Accesses of `bytes` each, one behind the other, from the start of a file on; the page cache has them all. */
static inline struct io_report_accesses stream_of(uint64_t operations, uint64_t bytes, uint64_t time_ns)
{
    struct io_report_accesses a = {.operations = operations,
                                   .bytes = operations * bytes,
                                   .located = operations,
                                   .followed = operations - 1,
                                   .sequential = operations - 1,
                                   .consecutive = operations - 1,
                                   .end_offset = operations * bytes,
                                   .slowest_ns = time_ns / operations,
                                   .slowest_bytes = bytes,
                                   .time = {0, 50 * S, time_ns}};
    a.sizes[bytes <= 100         ? 0
            : bytes <= KIB       ? 1
            : bytes <= 10 * KIB  ? 2
            : bytes <= 100 * KIB ? 3
            : bytes <= MIB       ? 4
                                 : 5] = operations;
    return a;
}

static inline struct io_report_file file_of(const char *path, uint32_t process)
{
    return (struct io_report_file){
        .path = path, .mount_point = "/", .file_system = "ext4", .process = process, .block_bytes = 4096, .opens = 1};
}

/* `random` of the reads began before the end of the one before, the others behind a gap. */
static inline struct io_report_file random_file(uint64_t operations, uint64_t random, uint64_t bytes, uint64_t time_ns)
{
    struct io_report_file file = file_of("/db", 0);
    file.reads = stream_of(operations, bytes, time_ns);
    file.reads.sequential = operations - 1 - random;
    file.reads.consecutive = 0;
    return file;
}
