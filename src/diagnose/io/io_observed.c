/* Sums by process; see io_observed.h. */
#include "diagnose/io/io_observed.h"

#include "model/io_merge.h"

#include <assert.h>
#include <errno.h>

static void extend_span(struct io_process_use *use, const struct io_report_time *t)
{
    if (t->last_ns == 0)
        return; /* it did not happen */
    if (use->last_ns == 0 || t->first_ns < use->first_ns)
        use->first_ns = t->first_ns;
    if (t->last_ns > use->last_ns)
        use->last_ns = t->last_ns;
}

static void sum_by_process(const struct io_report *report, struct io_observed *observed)
{
    for (size_t i = 0; i < observed->process_count; i++)
        observed->processes[i].process = (uint32_t)i;
    for (size_t i = 0; i < report->file_count; i++) {
        const struct io_report_file *file = &report->files[i];
        assert(file->process < observed->process_count);
        struct io_process_use *use = &observed->processes[file->process];
        use->time_ns += io_file_time_ns(file);
        use->bytes += file->reads.bytes + file->writes.bytes;
        extend_span(use, &file->reads.time);
        extend_span(use, &file->writes.time);
        extend_span(use, &file->metadata);
        observed->io_ns += io_file_time_ns(file);
    }
}

static int compare_times(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* A process with less of the I/O time of the busiest one, such as the shell that starts the others, does not count as
 * one that does I/O at the same time. */
#define MIN_PART 100

static uint64_t most_time_ns(const struct io_observed *observed)
{
    uint64_t most_ns = 0;
    for (size_t i = 0; i < observed->process_count; i++)
        if (observed->processes[i].time_ns > most_ns)
            most_ns = observed->processes[i].time_ns;
    return most_ns;
}

/* How many processes were between their first and their last operation at the same time, at most. */
static int count_at_once(const struct io_observed *observed, size_t *ret)
{
    _cleanup_free_ uint64_t *times = calloc(2 * observed->process_count + 1, sizeof(*times));
    const uint64_t least_ns = most_time_ns(observed) / MIN_PART;
    size_t count = 0, now = 0, most = 0;
    if (!times)
        return -ENOMEM;
    uint64_t *const begins = times, *const ends = times + observed->process_count;
    for (size_t i = 0; i < observed->process_count; i++) {
        const struct io_process_use *use = &observed->processes[i];
        if (use->time_ns < least_ns)
            continue;
        begins[count] = use->first_ns;
        ends[count++] = use->last_ns > use->first_ns ? use->last_ns : use->first_ns + 1;
    }
    qsort(begins, count, sizeof(*begins), compare_times);
    qsort(ends, count, sizeof(*ends), compare_times);
    for (size_t begun = 0, ended = 0; begun < count;) {
        if (begins[begun] < ends[ended]) {
            begun++;
            now++;
        } else {
            ended++;
            now--;
        }
        if (now > most)
            most = now;
    }
    *ret = most;
    return 0;
}

int io_observed_measure(const struct io_report *report, struct io_observed *ret)
{
    _cleanup_io_observed_ struct io_observed observed = {.process_count = report->process_count,
                                                         .one_ns = report->duration_ns};
    size_t at_once;
    observed.processes = calloc(report->process_count + 1, sizeof(*observed.processes));
    if (!observed.processes)
        return -ENOMEM;
    sum_by_process(report, &observed);
    int r = count_at_once(&observed, &at_once);
    if (r < 0)
        return r;
    observed.time_ns = (double)report->duration_ns * (double)(at_once ? at_once : 1);
    *ret = observed;
    observed.processes = NULL;
    return 0;
}

void io_observed_clear(struct io_observed *observed)
{
    free(observed->processes);
    observed->processes = NULL;
}
