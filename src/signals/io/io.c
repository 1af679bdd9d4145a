/* Signal "io": reads, writes and other operations on file systems, by job and mount, and the requests to block
 * devices (io_devices.c). The kernel counts by cgroup; counters of removed cgroups are moved here, and their entries in
 * the kernel's tables are deleted. */
#include "sources/io/io.h"

#include "base/clock.h"
#include "signals/io/io_device_metrics.h"
#include "signals/io/io_devices.h"
#include "signals/io/io_metrics.h"
#include "signals/io/io_names.h"
#include "signals/io/io_series.h"
#include "signals/io/io_slow_events.h"
#include "signals/signal.h"
#include "sources/sampling/cgroup_search.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERIES_MAX     50000
#define SERIES_BYTES   1024                /* of one, with its share of the job and the mount */
#define TEXT_MAX_BYTES ((size_t)128 << 20) /* of a page: half of the server's limit */
#define REFRESH_NS     10000000000ull      /* without a scrape */
#define IDLE_NS        60000000000ull
#define SLOW_NS        1000000000ull
#define HUNG_NS        10000000000ull

struct io_signal {
    void *source;
    struct io_series *series;
    struct io_devices *devices;
    struct io_names names;
    struct io_slow_events *slow;        /* NULL: not wanted */
    uint64_t refreshed_ns, searched_ns; /* the latter: for cgroups that are gone */
    size_t seen, errors_seen;           /* keys in this round */
    size_t counted, errors_counted;     /* in the last one */
};

static void destroy_io(void *self)
{
    struct io_signal *s = self;
    io_slow_events_free(s->slow);
    io_names_clear(&s->names);
    io_series_free(s->series);
    io_devices_free(s->devices);
    free(s);
}

static int create_io(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    const struct io_options *options = settings;
    *ret_self = NULL;
    if (!source) /* a replay */
        return 0;
    struct io_signal *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->source = s->names.source = source;
    const size_t fit = services->memory_bytes / SERIES_BYTES;
    int r = io_series_new(fit < SERIES_MAX ? fit : SERIES_MAX, TEXT_MAX_BYTES, &s->series)
                ?: io_devices_new(source, fit / 4, &s->devices);
    if (r == 0 && options->slow_ns)
        r = io_slow_events_new(services, &s->names, options->hung_ns, &s->slow);
    if (r < 0) {
        destroy_io(s);
        return r;
    }
    *ret_self = s;
    return 0;
}

/* ---- a round ---- */

/* True for counters that may move to the series: their cgroup is gone, or the table is half full and they are idle
 * (their mount may be gone, while their cgroup lives on). */
static bool is_final(void *context, const struct io_key *key, const struct io_counters *counters)
{
    struct io_signal *s = context;
    const struct io_named *cgroup = key->cgroup_id == IO_OTHER ? NULL : io_names_cgroup(&s->names, key->cgroup_id);
    if (!cgroup)
        return false;
    return cgroup->is_gone || (s->counted > io_source_counters_max(s->source) / 2 &&
                               counters->last_ns + IDLE_NS < s->refreshed_ns && counters->last_ns);
}

static void add_key(struct io_signal *s, const struct io_key *key, int error, const struct io_counters *counters,
                    bool is_last)
{
    const struct io_named *cgroup = key->cgroup_id == IO_OTHER ? NULL : io_names_cgroup(&s->names, key->cgroup_id);
    struct io_named *mount = key->mount == IO_NO_MOUNT ? NULL : io_names_mount(&s->names, key->mount);
    if (mount)
        mount->is_used |= !is_last;
    if (!mount || !mount->is_hidden)
        (void)io_series_add(s->series, cgroup ? &cgroup->job : NULL, mount ? mount->path : "unknown",
                            mount ? mount->type : "", key, error, counters, is_last);
}

static void take_counters(void *context, const struct io_key *key, const struct io_counters *counters, bool is_last)
{
    struct io_signal *s = context;
    static const struct io_counters none;
    s->seen++;
    if (memcmp(counters, &none, sizeof(none)) != 0)
        add_key(s, key, 0, counters, is_last);
}

static void take_error(void *context, const struct io_error_key *key, uint64_t count, bool is_last)
{
    struct io_signal *s = context;
    s->errors_seen++;
    add_key(s, &key->key, (int)key->error, &(struct io_counters){.errors = count}, is_last);
}

static void find_gone_cgroups(struct io_signal *s)
{
    const int root = cgroup_search_open();
    s->searched_ns = s->refreshed_ns;
    if (root < 0)
        return;
    io_names_find_gone(&s->names, root);
    close(root);
}

static void begin_round(struct io_signal *s)
{
    s->seen = s->errors_seen = 0;
    if (s->refreshed_ns - s->searched_ns >= REFRESH_NS)
        find_gone_cgroups(s);
    io_names_refresh_mounts(&s->names);
    for (struct io_named *n = s->names.mounts; n; n = n->hh.next)
        n->is_used = false;
}

/* Makes room for names. A mount that no program used in this round may be used right now, and would then have no name:
 * this is risked only where there is little room left. */
static void end_round(struct io_signal *s)
{
    struct io_named *n, *next;
    HASH_ITER (hh, s->names.cgroups, n, next) {
        if (n->is_gone)
            io_names_forget_cgroup(&s->names, n);
        else
            io_series_keep(s->series, &n->job);
    }
    HASH_ITER (hh, s->names.mounts, n, next)
        if (!n->is_used && HASH_COUNT(s->names.mounts) >= io_source_mounts_max(s->source) / 2)
            io_names_forget_mount(&s->names, n);
    s->counted = s->seen;
    s->errors_counted = s->errors_seen;
}

static void refresh(struct io_signal *s)
{
    const struct io_reader reader = {.context = s,
                                     .is_final = is_final,
                                     .take = take_counters,
                                     .take_error = take_error,
                                     .ends_errors = s->errors_counted > IO_MAX_ERRORS / 2};
    s->refreshed_ns = clock_monotonic_ns();
    begin_round(s);
    io_series_begin(s->series, s->refreshed_ns);
    (void)io_source_read(s->source, &reader);
    end_round(s);
    io_series_end(s->series);
    io_devices_refresh(s->devices, s->refreshed_ns);
    io_source_sweep(s->source, s->refreshed_ns);
}

static void turn_io(void *self, const struct mapped_processes *mapped)
{
    struct io_signal *s = self;
    (void)mapped;
    if (clock_monotonic_ns() - s->refreshed_ns >= REFRESH_NS)
        refresh(s);
}

static void fill_metrics(void *self, struct metric_set *set)
{
    struct io_signal *s = self;
    refresh(s);
    io_metrics_fill(s->series, io_source_counts_misses(s->source), set);
    io_device_metrics_fill(s->devices, set);
}

static void take_slow(void *self, const struct record_header *header)
{
    const struct io_signal *s = self;
    if (s && s->slow)
        io_slow_events_take(s->slow, header);
}

static const struct record_type records[] = {{RECORD_IO_SLOW, io_slow_check, take_slow}, {0}};

#define FIELD(f) offsetof(struct io_options, f), sizeof(((struct io_options *)0)->f)

static const struct setting settings[] = {
    SIGNAL_ENABLED("io.enabled", "count the operations of programs on files, and the requests to block devices"),
    {"io.slow", SETTING_DURATION, FIELD(slow_ns), 0, 3600e9, "a duration of up to 1h, such as 1s; 0s: none",
     "an operation that takes longer is an event"},
    {"io.hung", SETTING_DURATION, FIELD(hung_ns), 1e9, 86400e9, "a duration of 1s to 24h, such as 10s",
     "an operation that has been going on for longer is an event, too, before it ends"},
    {0},
};

const struct signal signal_io = {
    .name = "io",
    .memory = {.tables = MEMORY_IO_TABLES, .kept = MEMORY_IO_SERIES, .fixed_bytes = 1024u << 10},
    .source = &source_io,
    .flags = SIGNAL_EVENTS,
    .records = records,
    .settings_bytes = sizeof(struct io_options),
    .defaults = &(const struct io_options){.slow_ns = SLOW_NS, .hung_ns = HUNG_NS, .devices = true},
    .settings = settings,
    .is_node_wide = signal_is_node_wide,
    .create = create_io,
    .destroy = destroy_io,
    .turn = turn_io,
    .metrics = fill_metrics,
};
