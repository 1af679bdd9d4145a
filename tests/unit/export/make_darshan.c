/* Writes Darshan logs into a directory, for their readers (tests/e2e/test_darshan.py): example.darshan, the same with
 * losses, one without files, and one with thousands of files that have unusual names. */
#include "export/darshan.h"

#include <stdio.h>
#include <string.h>

#include "io_report_example.h"

enum { MANY = 5000 };

static int write_log(const char *folder, const char *name, const struct io_report *report)
{
    _cleanup_buf_ struct buf out = {0};
    char path[4096];
    int r = darshan_write(report, &out);
    if (r < 0) {
        fprintf(stderr, "%s: %s\n", name, strerror(-r));
        return r;
    }
    snprintf(path, sizeof(path), "%s/%s.darshan", folder, name);
    _cleanup_fclose_ FILE *f = fopen(path, "we");
    if (!f || fwrite(out.data, 1, out.size, f) != out.size || fflush(f) != 0) {
        perror(path);
        return -1;
    }
    return 0;
}

/* Every seventh name is as long as a path may be, every eleventh is not UTF-8 or contains a line feed. */
static int write_many_files(const char *folder)
{
    static char paths[MANY][4096];
    static struct io_report_file files[MANY];
    const struct io_report_process process = {.pid = 9, .command = "many"};
    for (int i = 0; i < MANY; i++) {
        snprintf(paths[i], sizeof(paths[i]), "/m/%d%s", i, i % 11 ? "" : i % 2 ? "\xff" : "\n\t");
        if (i % 7 == 0)
            memset(paths[i] + strlen(paths[i]), 'x', sizeof(paths[i]) - 1 - strlen(paths[i]));
        files[i] = (struct io_report_file){
            .path = paths[i], .mount_point = "/", .file_system = "ext4", .inode = i, .stats = i};
    }
    return write_log(folder, "many",
                     &(struct io_report){.executable = "many",
                                         .job_id = "",
                                         .start_unix_ns = EXAMPLE_START_NS,
                                         .duration_ns = SECOND,
                                         .processes = &process,
                                         .process_count = 1,
                                         .files = files,
                                         .file_count = MANY});
}

int main(int argc, char **argv)
{
    static struct io_report_example e;
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    io_report_example_fill(&e);
    if (write_log(argv[1], "example", &e.report) < 0)
        return 1;
    e.report.lost = 7;
    if (write_log(argv[1], "lost", &e.report) < 0)
        return 1;
    const struct io_report none = {
        .executable = "", .job_id = "", .start_unix_ns = EXAMPLE_START_NS, .duration_ns = SECOND, .lost = 1};
    return write_log(argv[1], "none", &none) < 0 || write_many_files(argv[1]) < 0;
}
