/* From series to metrics; see io_metrics.h. */
#include "signals/io/io_metrics.h"

#include "base/cleanup.h"
#include "base/saturated.h"
#include "sources/io/io_counters.h"

#include <stdio.h>
#include <string.h>

static const char *const operation_names[IO_OPERATIONS] = {
    [IO_READ] = "read",         [IO_WRITE] = "write",   [IO_OPEN] = "open",   [IO_CREATE] = "create",
    [IO_CLOSE] = "close",       [IO_SYNC] = "sync",     [IO_STAT] = "stat",   [IO_ALLOCATE] = "allocate",
    [IO_TRUNCATE] = "truncate", [IO_LIST] = "list",     [IO_MKDIR] = "mkdir", [IO_RMDIR] = "rmdir",
    [IO_UNLINK] = "unlink",     [IO_RENAME] = "rename", [IO_LINK] = "link",   [IO_MAP] = "map",
};

const char *io_metrics_operation(uint8_t operation)
{
    return operation < IO_OPERATIONS && operation_names[operation] ? operation_names[operation] : "unknown";
}

/* Every second of the kernel's power-of-two bounds: each is a line a series. */
#define DURATION_BOUNDS ((IO_BUCKETS - 1) / 2)

void io_metrics_durations(struct metric_set *set, const char *name, const char *help, const struct io_counters *c,
                          const struct metric_label *labels, size_t label_count)
{
    double bounds[DURATION_BOUNDS];
    uint64_t counts[DURATION_BOUNDS + 1] = {0};
    for (size_t i = 0; i < DURATION_BOUNDS; i++)
        bounds[i] = (double)(1ull << (IO_FIRST_BUCKET + 1 + 2 * i)) / 1e9;
    for (size_t i = 0; i < IO_BUCKETS; i++) {
        const size_t bucket = i / 2 < DURATION_BOUNDS ? i / 2 : DURATION_BOUNDS;
        counts[bucket] = saturated_sum(counts[bucket], c->durations[i]);
    }
    metric_add_histogram(set, name, "seconds", help, bounds, counts, DURATION_BOUNDS, (double)c->sum_ns / 1e9, labels,
                         label_count);
}

static void put_sizes(struct metric_set *set, const struct io_counters *c, const struct metric_label *labels,
                      size_t label_count)
{
    static const double bounds[IO_SIZES - 1] = {100,     1024,     10240,     102400,    1048576,
                                                4194304, 10485760, 104857600, 1073741824};
    uint64_t counts[IO_SIZES];
    for (size_t i = 0; i < IO_SIZES; i++)
        counts[i] = c->sizes[i];
    metric_add_histogram(set, "sonde_io_size_bytes", "bytes", "Bytes that a read or write returned or took.", bounds,
                         counts, IO_SIZES - 1, (double)c->bytes, labels, label_count);
}

#define OF_MOUNT    7 /* labels */
#define OF_CONTRACT 6 /* the place of that label */

/* Of buffered reads. */
static void put_misses(struct metric_set *set, const struct io_point *p, const struct metric_label *labels)
{
    struct metric_label in_pages[OF_MOUNT];
    memcpy(in_pages, labels, sizeof(in_pages));
    in_pages[OF_CONTRACT].value = "pages";
    if (!(p->flags & IO_IS_DIRECT))
        metric_add(set, "sonde_io_cache_missed_bytes", METRIC_COUNTER, "bytes",
                   "Bytes of the pages that reads brought into the page cache, with read-ahead.",
                   (double)p->counters.missed, in_pages, OF_MOUNT);
}

static void put_bytes(struct metric_set *set, const struct io_point *p, const struct metric_label *labels,
                      size_t label_count)
{
    if (p->operation == IO_READ)
        metric_add(set, "sonde_io_read_bytes", METRIC_COUNTER, "bytes", "Bytes read from files.",
                   (double)p->counters.bytes, labels, label_count);
    else
        metric_add(set, "sonde_io_write_bytes", METRIC_COUNTER, "bytes", "Bytes written to files.",
                   (double)p->counters.bytes, labels, label_count);
}

/* I/O on a FUSE file system is done twice: by its client, and by the daemon that serves it. */
static const char *layer_of(const struct io_point *p)
{
    if (p->flags & IO_IS_OF_DAEMON)
        return "daemon";
    return strncmp(p->fstype, "fuse", 4) == 0 ? "client" : "";
}

struct filling {
    struct metric_set *set;
    bool counts_misses;
};

static void put_point(void *context, const struct io_point *p)
{
    const struct filling *filling = context;
    struct metric_set *set = filling->set;
    char number[16];
    const char *error = p->error ? strerrorname_np(p->error) : NULL;
    snprintf(number, sizeof(number), "%d", p->error);
    const bool is_unconfirmed = p->flags & IO_IS_UNCONFIRMED;
    const char *contract = p->operation == IO_MAP ? "pages" : is_unconfirmed ? "unconfirmed" : "exact";
    const struct metric_label labels[] = {{"manager", p->job->manager},
                                          {"job_id", p->job->id},
                                          {"mountpoint", p->mountpoint},
                                          {"fstype", p->fstype},
                                          {"direct", p->flags & IO_IS_DIRECT ? "true" : "false"},
                                          {"layer", layer_of(p)},
                                          {"contract", contract},
                                          {"operation", io_metrics_operation(p->operation)},
                                          {"error", error ? error : number}};
    const size_t with_operation = 8, with_error = 9;
    if (p->error) {
        metric_add(set, "sonde_io_errors", METRIC_COUNTER, "", "I/O operations that failed, by error.",
                   (double)p->counters.errors, labels, with_error);
        return;
    }
    metric_add(set, "sonde_io_operations", METRIC_COUNTER, "", "I/O operations, with those that failed.",
               (double)io_counters_operations(&p->counters), labels, with_operation);
    if (p->operation == IO_MAP) {
        metric_add(set, "sonde_io_mapped_bytes", METRIC_COUNTER, "bytes",
                   "Bytes of the pages of files that were mapped into programs.", (double)p->counters.bytes, labels,
                   OF_MOUNT);
        return;
    }
    io_metrics_durations(set, "sonde_io_duration_seconds", "Duration of I/O operations.", &p->counters, labels,
                         with_operation);
    if (p->operation != IO_READ && p->operation != IO_WRITE)
        return;
    put_bytes(set, p, labels, OF_MOUNT);
    if (p->operation == IO_READ && filling->counts_misses && !(p->flags & IO_IS_UNCONFIRMED))
        put_misses(set, p, labels);
    put_sizes(set, &p->counters, labels, with_operation);
}

/* Adds the known attributes of a job, to be joined with its series by its ID. */
static void put_job(void *context, const struct job *job)
{
    metric_add(context, "sonde_io_job", METRIC_INFO, "", "Metadata of jobs that have series of I/O.", 1,
               METRIC_LABELS({"manager", job->manager}, {"job_id", job->id}, {"uid", job->uid}));
}

void io_metrics_fill(const struct io_series *series, bool counts_misses, struct metric_set *set)
{
    struct filling filling = {set, counts_misses};
    io_series_each(series, put_point, &filling);
    io_series_each_job(series, put_job, set);
    metric_add(set, "sonde_io_series", METRIC_GAUGE, "", "Series of I/O, by job, mount and operation.",
               (double)io_series_count(series), METRIC_NO_LABELS);
    metric_add(set, "sonde_io_series_folded", METRIC_GAUGE, "",
               "Entries of the kernel's table that count as job \"other\" because the series are full.",
               (double)io_series_folded(series), METRIC_NO_LABELS);
}
