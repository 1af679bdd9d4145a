/* How long the page of /metrics takes with as many series of I/O as asked for: from the counters of jobs to text, as
 * the agent does it, without HTTP. Prints one line: "keys 2500 series 46000 bytes 7912345 fill_ms 2.1 copy_ms 3.2
 * text_ms 12.3 resident_mib 41.0"; times are the least of five rounds. For bench/io_cost. */
#include "bench.h"

#include "export/openmetrics.h"
#include "signals/io/io_metrics.h"
#include "signals/io/io_series.h"

#include <string.h>
#include <sys/resource.h>

#define ROUNDS 5

struct times {
    double fill_ns, copy_ns, text_ns;
};

/* Jobs that read, write, open and close on one mount. */
static void add_key(struct io_series *series, size_t i)
{
    static const uint8_t operations[] = {IO_READ, IO_WRITE, IO_CREATE, IO_CLOSE};
    const struct io_key key = {.operation = operations[i % 4]};
    struct io_counters counters = {.bytes = 4096 * (i + 1), .sum_ns = 1234567 * (i + 1)};
    struct job job = {.manager = "slurm"};
    for (size_t bucket = 2; bucket < 9; bucket++)
        counters.durations[bucket] = 1000 * bucket + i;
    counters.sizes[2] = 35000 + 7 * i;
    snprintf(job.id, sizeof(job.id), "%zu", 4700000 + i / 4);
    must(io_series_add(series, &job, "/scratch/project", "xfs", &key, 0, &counters, false) == 0, "io_series_add");
}

static size_t count_series(const struct buf *page)
{
    size_t count = 0;
    for (const char *line = page->data; line && *line; line = strchr(line, '\n') + 1)
        count += *line != '#';
    return count;
}

static void keep_least(double *least, double ns)
{
    if (*least == 0 || ns < *least)
        *least = ns;
}

static void scrape(const struct io_series *series, struct times *least, struct buf *page)
{
    _cleanup_(metric_set_freep) struct metric_set *published = NULL, *set = NULL;
    const double start = now_ns();
    must(metric_set_new(&published) == 0 && metric_set_new(&set) == 0, "metric_set_new");
    io_metrics_fill(series, true, published);
    const double filled = now_ns();
    metric_add_set(set, published);
    const double copied = now_ns();
    must(openmetrics_write(set, true, page) == 0, "openmetrics_write");
    keep_least(&least->text_ns, now_ns() - copied);
    keep_least(&least->copy_ns, copied - filled);
    keep_least(&least->fill_ns, filled - start);
}

int main(int argc, char **argv)
{
    const size_t keys = argc > 1 ? strtoul(argv[1], NULL, 10) : 50000;
    struct io_series *series = NULL;
    struct times least = {0};
    struct rusage usage;
    size_t bytes = 0, lines = 0;
    must(io_series_new(keys, SIZE_MAX, &series) == 0, "io_series_new");
    io_series_begin(series, 1);
    for (size_t i = 0; i < keys; i++)
        add_key(series, i);
    io_series_end(series);
    for (int round = 0; round < ROUNDS; round++) {
        _cleanup_buf_ struct buf page = {0};
        scrape(series, &least, &page);
        bytes = page.size;
        lines = count_series(&page);
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("keys %zu series %zu bytes %zu fill_ms %.1f copy_ms %.1f text_ms %.1f resident_mib %.1f\n", keys, lines,
           bytes, least.fill_ns / 1e6, least.copy_ns / 1e6, least.text_ns / 1e6, (double)usage.ru_maxrss / 1024);
    io_series_free(series);
    return 0;
}
