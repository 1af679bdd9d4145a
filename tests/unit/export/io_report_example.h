/* A report of I/O by three processes, with known values: for test_darshan.c, and for tests/e2e/test_darshan.py, which
 * expects them from readers of Darshan logs. Process p, from 0:
 * - writes 1000 * (p + 1) times 4 KiB to a file of all three, which takes p + 1 seconds, and syncs for 0.5 seconds;
 * - 0 and 1 read a file in 8 MiB pieces; 0 has a file of its own;
 * - makes 5 stat(2) calls by path, and 2 opens that fail. */
#pragma once

#include "base/cleanup.h"
#include "model/io_report.h"

#define EXAMPLE_PROCESSES 3
#define EXAMPLE_FILES     9
#define EXAMPLE_INTERVALS 20
#define EXAMPLE_START_NS  UINT64_C(1785585600250000000)
#define MS                UINT64_C(1000000)
#define SECOND            (1000 * MS)

struct io_report_example {
    struct io_report report;
    struct io_report_process processes[EXAMPLE_PROCESSES];
    struct io_report_file files[EXAMPLE_FILES];
    struct io_report_cell cells[EXAMPLE_PROCESSES * EXAMPLE_INTERVALS];
};

static inline struct io_report_file example_calls_by_path(uint32_t process)
{
    return (struct io_report_file){.path = "",
                                   .mount_point = "",
                                   .file_system = "",
                                   .process = process,
                                   .opens = 2,
                                   .stats = 5,
                                   .errors = 2,
                                   .open = {1 * MS, 2 * MS, 20000},
                                   .metadata = {1 * MS, 3 * MS, 50000}};
}

static inline struct io_report_file example_shared_file(uint32_t process)
{
    const uint64_t p = process, n = 1000 * (p + 1);
    struct io_report_file file = {.path = "/data/shared.bin",
                                  .mount_point = "/data",
                                  .file_system = "xfs",
                                  .inode = 77,
                                  .process = process,
                                  .block_bytes = 4096,
                                  .opens = 1,
                                  .creates = p == 0,
                                  .closes = 1,
                                  .syncs = 2,
                                  .open = {(10 + p) * MS, (20 + p) * MS, 1 * MS},
                                  .close = {(8000 + p) * MS, (8100 + p) * MS, 1 * MS},
                                  .sync = {7000 * MS, 7500 * MS, 500 * MS},
                                  .metadata = {(10 + p) * MS, (8100 + p) * MS, 502 * MS}};
    file.writes = (struct io_report_accesses){.operations = n,
                                              .bytes = n * 4096,
                                              .located = n,
                                              .followed = n - 1,
                                              .sequential = n - 1,
                                              .consecutive = n - 2,
                                              .unaligned = 3 + p,
                                              .end_offset = (p + 1) * 1000000,
                                              .sizes[2] = n,
                                              .slowest_ns = (5 + p) * MS,
                                              .slowest_bytes = 4096 + p,
                                              .time = {(100 - p) * MS, (6000 + p) * MS, (p + 1) * SECOND}};
    file.sizes[0] = (struct io_report_common){4096, n};
    /* The most frequent one over all ranks is no rank's most frequent one. */
    file.strides[0] = (struct io_report_common){(p + 1) << 20, 10 + p};
    file.strides[1] = (struct io_report_common){512, 9};
    return file;
}

static inline struct io_report_file example_read_file(uint32_t process)
{
    struct io_report_file file = {.path = "/scratch/input",
                                  .mount_point = "/",
                                  .file_system = "ext4",
                                  .inode = 78,
                                  .process = process,
                                  .opens = 1,
                                  .closes = 1,
                                  .stats = 1,
                                  .maps = 3,
                                  .mapped_bytes = 12288,
                                  .switches = 1,
                                  .open = {30 * MS, 31 * MS, 1 * MS},
                                  .close = {40 * MS, 41 * MS, 1 * MS},
                                  .metadata = {30 * MS, 41 * MS, 3 * MS}};
    file.reads = (struct io_report_accesses){.operations = 8,
                                             .bytes = UINT64_C(8) << 23,
                                             .located = 8,
                                             .followed = 7,
                                             .sequential = 7,
                                             .consecutive = 7,
                                             .end_offset = UINT64_C(8) << 23,
                                             .sizes[6] = 8,
                                             .slowest_ns = 4 * MS,
                                             .slowest_bytes = 1 << 23,
                                             .time = {32 * MS, 39 * MS, 6 * MS}};
    file.sizes[0] = (struct io_report_common){1 << 23, 8};
    return file;
}

static inline struct io_report_file example_own_file(uint32_t process)
{
    return (struct io_report_file){
        .path = "/scratch/log \xff",
        .mount_point = "/",
        .file_system = "ext4",
        .inode = 79,
        .process = process,
        .creates = 1,
        .truncates = 1,
        .writes = {.operations = 1, .bytes = 10, .sizes[0] = 1, .time = {50 * MS, 51 * MS, MS}},
        .metadata = {49 * MS, 50 * MS, MS}};
}

static inline void io_report_example_fill(struct io_report_example *e)
{
    static const char *const commands[EXAMPLE_PROCESSES] = {"train", "train", "loader"};
    size_t n = 0;
    *e = (struct io_report_example){0};
    for (uint32_t p = 0; p < EXAMPLE_PROCESSES; p++) {
        e->processes[p] = (struct io_report_process){.pid = 100 + p, .command = commands[p]};
        e->files[n++] = example_calls_by_path(p);
        e->files[n++] = example_shared_file(p);
        if (p < 2)
            e->files[n++] = example_read_file(p);
        if (p == 0)
            e->files[n++] = example_own_file(p);
        for (size_t i = 0; i < EXAMPLE_INTERVALS && p < 2; i++) /* the last process has no heatmap */
            e->cells[p * EXAMPLE_INTERVALS + i] = (struct io_report_cell){i, 1000 * p + i * i};
    }
    e->report = (struct io_report){.title = "slurm 4711",
                                   .executable = "/usr/bin/train --epochs 3",
                                   .job_id = "4711",
                                   .start_unix_ns = EXAMPLE_START_NS,
                                   .duration_ns = 10 * SECOND,
                                   .uid = 1000,
                                   .processes = e->processes,
                                   .process_count = EXAMPLE_PROCESSES,
                                   .files = e->files,
                                   .file_count = n,
                                   .cells = e->cells,
                                   .interval_count = EXAMPLE_INTERVALS,
                                   .interval_ns = 500 * MS};
}
