/* What jobs did on mounts: sums over the cgroups of each job, as they are now and as they were when they ended. Steps
 * of a job and containers of a pod are folded in. No clock, no kernel: times and counters are passed in. */
#pragma once

#include "base/cleanup.h"
#include "resolve/proc/job.h"

#include "probes/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IO_KEEP_NS 300000000000ull /* how long an ended job is kept: for scrapes that are minutes apart */

struct io_series;

/* One series. Borrowed. */
struct io_point {
    const struct job *job; /* manager "other": jobs without room for series */
    const char *mountpoint, *fstype;
    uint8_t operation, flags;
    int error; /* 0: of all operations; else `counters.errors` is how often they failed with this errno, and the rest 0
                */
    struct io_counters counters;
};

/* At most `max_points` series, and as many as take `max_text_bytes` on a page of metrics: programs choose the names of
 * their mount points. The series of job "other" on mount "unknown" come on top. -ENOMEM. */
int io_series_new(size_t max_points, size_t max_text_bytes, struct io_series **ret);
void io_series_free(struct io_series *s);
DEFINE_FREEP(io_series)

/* The counters of all cgroups follow, by io_series_add. */
void io_series_begin(struct io_series *s, uint64_t now_ns);

/* Adds the counters of one key of one cgroup, of this job; NULL: "other". `is_final`: these counters will not come
 * again. `error`: as in struct io_point; `counters` then has only `errors`. -ENOMEM: they are missing. */
int io_series_add(struct io_series *s, const struct job *job, const char *mountpoint, const char *fstype,
                  const struct io_key *key, int error, const struct io_counters *counters, bool is_final);

/* A cgroup of this job is there: it has not ended. */
void io_series_keep(struct io_series *s, const struct job *job);

/* Forgets jobs that ended more than IO_KEEP_NS ago. */
void io_series_end(struct io_series *s);

void io_series_each(const struct io_series *s, void (*take)(void *context, const struct io_point *point),
                    void *context);
/* All jobs that have a series, without "other". */
void io_series_each_job(const struct io_series *s, void (*take)(void *context, const struct job *job), void *context);
size_t io_series_count(const struct io_series *s);
/* How many keys were added to "other" in the last round because the series were full. */
size_t io_series_folded(const struct io_series *s);
