/* A synthetic I/O report, for web/tests/io.test.mjs: `fake-io-report text|json|html [hostile]`. 65 processes of a job
 * read one file in small pieces, the first of them at random; one of them writes checkpoints. `hostile`: names have
 * markup. */
#include "diagnose/io/io_findings.h"
#include "export/io_report_html.h"
#include "export/io_report_json.h"
#include "export/io_report_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define S         UINT64_C(1000000000)
#define MIB       (UINT64_C(1) << 20)
#define PROCESSES 65
#define INTERVALS 120

static struct io_report_process processes[PROCESSES];
static struct io_report_file files[PROCESSES + 2];
static struct io_report_cell cells[PROCESSES * INTERVALS];

static void fill_reads(bool is_hostile)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        processes[i] = (struct io_report_process){4000 + i, is_hostile ? "</td><img src=x>" : "python3"};
        files[i] =
            (struct io_report_file){.path = is_hostile ? "</script><img src=x>\n" : "/scratch/imagenet/train.rec",
                                    .mount_point = "/scratch",
                                    .file_system = "lustre",
                                    .inode = 4711,
                                    .process = i,
                                    .block_bytes = 4096,
                                    .reads = {.operations = 100000,
                                              .bytes = 100000 * UINT64_C(8192),
                                              .located = 100000,
                                              .followed = 100000,
                                              .sequential = i ? 99990 : 20000,
                                              .consecutive = i ? 99900 : 10000,
                                              .unaligned = 100,
                                              .end_offset = 100000 * UINT64_C(8192),
                                              .sizes = {[2] = 99000, [3] = 1000},
                                              .slowest_ns = 12000000 + i,
                                              .slowest_bytes = 8192,
                                              .time = {S + i, 110 * S, (i ? 20 : 45) * S}},
                                    .opens = 10,
                                    .closes = 10,
                                    .open = {S, 2 * S, 1000000},
                                    .metadata = {S, 2 * S, 2000000},
                                    .sizes = {{8192, 99000}, {65536, 1000}},
                                    .strides = {{16384, 90}}};
        for (uint32_t k = 1; k < 110; k++)
            cells[i * INTERVALS + k].read_bytes = (7 * MIB * ((i + k) % 9)) >> ((i * k) % 7);
    }
}

static void fill_others(void)
{
    files[PROCESSES] = (struct io_report_file){.path = "/scratch/run/checkpoint.pt",
                                               .mount_point = "/scratch",
                                               .file_system = "lustre",
                                               .process = PROCESSES - 1,
                                               .block_bytes = 4096,
                                               .writes = {.operations = 400,
                                                          .bytes = 400 * 16 * MIB,
                                                          .located = 400,
                                                          .followed = 399,
                                                          .sequential = 399,
                                                          .consecutive = 399,
                                                          .sizes = {[7] = 400},
                                                          .slowest_ns = S / 10,
                                                          .slowest_bytes = 16 * MIB,
                                                          .time = {30 * S, 100 * S, 8 * S}},
                                               .creates = 4,
                                               .closes = 4,
                                               .syncs = 400,
                                               .sync = {30 * S, 100 * S, 30 * S},
                                               .metadata = {30 * S, 100 * S, 31 * S}};
    files[PROCESSES + 1] = (struct io_report_file){.path = "",
                                                   .mount_point = "",
                                                   .file_system = "",
                                                   .process = PROCESSES - 1,
                                                   .stats = 5000,
                                                   .metadata = {S, 90 * S, S / 2},
                                                   .errors = 12};
    for (size_t k = 30; k < 100; k += 20)
        cells[(PROCESSES - 1) * INTERVALS + k].write_bytes = 1600 * MIB;
}

static const struct io_failure failures[] = {
    {.error = "ENOSPC",
     .operation = "write",
     .path = "/scratch/run/checkpoint.pt",
     .process = PROCESSES - 1,
     .count = 2},
    {.error = "ENOENT", .operation = "open", .path = "train.yaml", .is_expected = true, .count = 10}};

int main(int argc, char **argv)
{
    const bool is_hostile = argc > 2 && strcmp(argv[2], "hostile") == 0;
    const struct io_report report = {.title = is_hostile ? "</title><img src=x>" : "slurm 4711",
                                     .executable = "python3 train.py --data /scratch/imagenet",
                                     .job_id = "4711",
                                     .start_unix_ns = UINT64_C(1763712000123456789),
                                     .duration_ns = 120 * S,
                                     .uid = 1000,
                                     .processes = processes,
                                     .process_count = PROCESSES,
                                     .files = files,
                                     .file_count = PROCESSES + 2,
                                     .cells = cells,
                                     .interval_count = INTERVALS,
                                     .interval_ns = S,
                                     .failures = failures,
                                     .failure_count = array_size(failures),
                                     .lost = is_hostile ? 1234 : 0};
    struct io_findings findings;
    _cleanup_buf_ struct buf out = {0};
    fill_reads(is_hostile);
    fill_others();
    const char *format = argc > 1 ? argv[1] : "";
    int r = io_findings_find(&report, &findings);
    if (r == 0 && strcmp(format, "text") == 0)
        r = io_report_text_put(&report, findings.items, findings.count, &out);
    else if (r == 0 && strcmp(format, "json") == 0)
        r = io_report_json_put(&report, findings.items, findings.count, &out);
    else if (r == 0 && strcmp(format, "html") == 0)
        r = io_report_html_put(&report, findings.items, findings.count, &out);
    if (r < 0 || !out.size) {
        fprintf(stderr, "usage: fake-io-report text|json|html [hostile]\n");
        return 1;
    }
    return fwrite(out.data, 1, out.size, stdout) != out.size;
}
