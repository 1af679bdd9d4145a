/* Signal "io": what is read from, written to and asked of file systems, by job and mount. The kernel counts by cgroup;
 * what cgroups did that are gone is taken over here, and their entries in its tables make room. */
#include "sources/io/io.h"

#include "base/clock.h"
#include "signals/io/io_metrics.h"
#include "signals/io/io_names.h"
#include "signals/io/io_series.h"
#include "signals/signal.h"
#include "sources/sampling/cgroup_search.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_MAX 50000
#define REFRESH_NS 10000000000ull /* when nobody asks */

struct io_signal {
    void *source;
    struct io_series *series;
    struct io_names names;
    uint64_t refreshed_ns;
};

static void destroy_io(void *self)
{
    struct io_signal *s = self;
    io_names_clear(&s->names);
    io_series_free(s->series);
    free(s);
}

static int create_io(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    (void)services, (void)settings;
    *ret_self = NULL;
    if (!source) /* a replay */
        return 0;
    struct io_signal *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->source = s->names.source = source;
    const int r = io_series_new(SERIES_MAX, &s->series);
    if (r < 0) {
        free(s);
        return r;
    }
    *ret_self = s;
    return 0;
}

static bool is_node_wide(const void *settings)
{
    (void)settings;
    return true;
}

/* ---- a round ---- */

static bool add_key(struct io_signal *s, const struct io_key *key, int error, const struct io_counters *counters)
{
    struct io_named *cgroup = key->cgroup_id == IO_OTHER ? NULL : io_names_cgroup(&s->names, key->cgroup_id);
    struct io_named *mount = key->mount == IO_NO_MOUNT ? NULL : io_names_mount(&s->names, key->mount);
    const bool is_final = cgroup && cgroup->is_gone;
    if (cgroup)
        cgroup->is_used = true;
    if (mount)
        mount->is_used |= !is_final;
    if (mount && mount->is_hidden)
        return is_final;
    const int r = io_series_add(s->series, cgroup ? cgroup->path : NULL, mount ? mount->path : "unknown",
                                mount ? mount->type : "", key, error, counters, is_final);
    return is_final && r == 0;
}

static bool take_counters(void *context, const struct io_key *key, const struct io_counters *counters)
{
    static const struct io_counters none;
    if (memcmp(counters, &none, sizeof(none)) == 0)
        return false;
    return add_key(context, key, 0, counters);
}

static bool take_error(void *context, const struct io_error_key *key, uint64_t count)
{
    return add_key(context, &key->key, (int)key->error, &(struct io_counters){.errors = count});
}

static bool is_cgroup_gone(const struct io_named *cgroup)
{
    uint64_t id;
    return cgroup_search_path(cgroup->path, &id) < 0 || id != cgroup->id;
}

static void begin_round(struct io_signal *s)
{
    struct io_named *n;
    for (n = s->names.cgroups; n; n = n->hh.next) {
        n->is_gone = n->is_gone || is_cgroup_gone(n);
        n->is_used = false;
    }
    for (n = s->names.mounts; n; n = n->hh.next)
        n->is_used = false;
}

/* Makes room for names. A mount that nobody used in this round may be used right now, and would then have no name: this
 * is risked only where there is little room left. */
static void end_round(struct io_signal *s)
{
    struct io_named *n, *next;
    HASH_ITER (hh, s->names.cgroups, n, next)
        if (n->is_gone)
            io_names_forget_cgroup(&s->names, n);
    HASH_ITER (hh, s->names.mounts, n, next)
        if (!n->is_used && HASH_COUNT(s->names.mounts) >= IO_MAX_MOUNTS / 2)
            io_names_forget_mount(&s->names, n);
}

static void refresh(struct io_signal *s)
{
    s->refreshed_ns = clock_monotonic_ns();
    begin_round(s);
    io_series_begin(s->series, s->refreshed_ns);
    (void)io_source_counters(s->source, take_counters, s);
    (void)io_source_errors(s->source, take_error, s);
    io_series_end(s->series);
    end_round(s);
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
    io_metrics_fill(s->series, set);
}

static const struct setting settings[] = {
    SIGNAL_ENABLED("io.enabled", "count what programs read, write and ask of file systems"),
    {0},
};

const struct signal signal_io = {
    .name = "io",
    .source = &source_io,
    .settings_bytes = sizeof(struct io_options),
    .defaults = &(const struct io_options){0},
    .settings = settings,
    .is_node_wide = is_node_wide,
    .create = create_io,
    .destroy = destroy_io,
    .turn = turn_io,
    .metrics = fill_metrics,
};
