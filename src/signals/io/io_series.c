/* Series of jobs; see io_series.h. */
#include "signals/io/io_series.h"

#include "sources/io/io_counters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct series_job {
    struct job job;
    uint64_t live_ns; /* when a cgroup of it was last there */
    size_t points, label_bytes;
    char *key; /* "manager\nid" */
    UT_hash_handle hh;
};

struct place {
    char *mountpoint, *fstype, *key; /* "mountpoint\nfstype" */
    size_t points, label_bytes;
    UT_hash_handle hh;
};

struct point_key {
    const struct series_job *job;
    const struct place *place;
    uint8_t operation, flags;
    uint16_t error;
    uint32_t reserved;
};

struct series_point {
    struct point_key key;
    struct series_job *job;
    struct place *place;
    struct io_counters past, live;
    UT_hash_handle hh;
};

struct io_series {
    size_t max_points, max_text_bytes, text_bytes, folded;
    uint64_t now_ns;
    struct series_job *jobs;
    struct place *places;
    struct series_point *points;
};

int io_series_new(size_t max_points, size_t max_text_bytes, struct io_series **ret)
{
    struct io_series *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->max_points = max_points;
    s->max_text_bytes = max_text_bytes;
    *ret = s;
    return 0;
}

/* ---- the size of a page ---- */

#define LINE_BYTES 160 /* of a line, without the values of the job's and the mount's labels */

/* At most: some characters are escaped, and bytes that are not UTF-8 replaced by three. */
static size_t label_bytes(const char *value)
{
    size_t bytes = 0;
    for (; *value; value++)
        bytes += *value >= 0x20 && *value < 0x7F && *value != '"' && *value != '\\' ? 1 : 3;
    return bytes;
}

/* Lines of a point: its counters and histograms (io_metrics.c). */
static size_t count_lines(const struct point_key *key)
{
    if (key->error)
        return 1;
    if (key->operation == IO_MAP)
        return 2;
    return key->operation == IO_READ || key->operation == IO_WRITE ? 30 : 17;
}

static size_t point_text_bytes(const struct point_key *key)
{
    return count_lines(key) * (LINE_BYTES + key->job->label_bytes + key->place->label_bytes);
}

/* ---- jobs and places: they live as long as there are points of theirs ---- */

static char *join(const char *a, const char *b)
{
    const size_t size = strlen(a) + strlen(b) + 2;
    char *key = malloc(size);
    if (key)
        snprintf(key, size, "%s\n%s", a, b);
    return key;
}

/* NULL: unknown job. `key` as join() makes it. */
static struct series_job *look_up_job(const struct io_series *s, const char *key)
{
    struct series_job *found = NULL;
    HASH_FIND_STR(s->jobs, key, found);
    return found;
}

static struct series_job *find_job(struct io_series *s, const struct job *job)
{
    _cleanup_free_ char *key = join(job->manager, job->id);
    struct series_job *found = key ? look_up_job(s, key) : NULL;
    if (!key || found)
        return found;
    found = calloc(1, sizeof(*found));
    if (!found)
        return NULL;
    found->job = *job;
    found->label_bytes = label_bytes(job->manager) + label_bytes(job->id);
    found->key = take_ptr(key);
    HASH_ADD_KEYPTR(hh, s->jobs, found->key, strlen(found->key), found);
    return found;
}

static void forget_job(struct io_series *s, struct series_job *job)
{
    HASH_DEL(s->jobs, job);
    free(job->key);
    free(job);
}

static void free_place(struct place *place)
{
    free(place->mountpoint);
    free(place->fstype);
    free(place->key);
    free(place);
}

static struct place *find_place(struct io_series *s, const char *mountpoint, const char *fstype)
{
    _cleanup_free_ char *key = join(mountpoint, fstype);
    struct place *found = NULL;
    if (!key)
        return NULL;
    HASH_FIND_STR(s->places, key, found);
    if (found)
        return found;
    found = calloc(1, sizeof(*found));
    if (!found)
        return NULL;
    found->mountpoint = strdup(mountpoint);
    found->fstype = strdup(fstype);
    if (!found->mountpoint || !found->fstype) {
        free_place(found);
        return NULL;
    }
    found->label_bytes = label_bytes(mountpoint) + label_bytes(fstype);
    found->key = take_ptr(key);
    HASH_ADD_KEYPTR(hh, s->places, found->key, strlen(found->key), found);
    return found;
}

static void forget_point(struct io_series *s, struct series_point *point)
{
    HASH_DEL(s->points, point);
    s->text_bytes -= point_text_bytes(&point->key);
    if (--point->place->points == 0) {
        HASH_DEL(s->places, point->place);
        free_place(point->place);
    }
    if (--point->job->points == 0)
        forget_job(s, point->job);
    free(point);
}

void io_series_free(struct io_series *s)
{
    struct series_point *point, *next;
    if (!s)
        return;
    HASH_ITER (hh, s->points, point, next)
        forget_point(s, point);
    free(s);
}

/* ---- points ---- */

static struct series_point *new_point(struct io_series *s, const struct point_key *key, struct series_job *job,
                                      struct place *place)
{
    struct series_point *point = calloc(1, sizeof(*point));
    if (!point)
        return NULL;
    point->key = *key;
    point->job = job;
    point->place = place;
    job->points++;
    place->points++;
    s->text_bytes += point_text_bytes(key);
    HASH_ADD(hh, s->points, key, sizeof(point->key), point);
    return point;
}

static void drop_unused(struct io_series *s, struct series_job *job, struct place *place)
{
    if (job && job->points == 0)
        forget_job(s, job);
    if (place && place->points == 0) {
        HASH_DEL(s->places, place);
        free_place(place);
    }
}

static bool is_other(const struct job *job)
{
    return strcmp(job->manager, "other") == 0;
}

static bool has_room(const struct io_series *s, const struct point_key *key)
{
    return HASH_COUNT(s->points) < s->max_points && s->text_bytes + point_text_bytes(key) <= s->max_text_bytes;
}

/* NULL: there is no room, or no memory. `is_limited`: a new one needs room. */
static struct series_point *find_point(struct io_series *s, const struct job *job, const char *mountpoint,
                                       const char *fstype, const struct io_key *key, int error, bool is_limited)
{
    struct series_job *of = find_job(s, job);
    struct place *place = find_place(s, mountpoint, fstype);
    const struct point_key wanted = {
        .job = of, .place = place, .operation = key->operation, .flags = key->flags, .error = (uint16_t)error};
    struct series_point *point = NULL;
    if (of && place)
        HASH_FIND(hh, s->points, &wanted, sizeof(wanted), point);
    if (of && place && !point && (!is_limited || has_room(s, &wanted)))
        point = new_point(s, &wanted, of, place);
    if (!point)
        drop_unused(s, of, place);
    return point;
}

void io_series_begin(struct io_series *s, uint64_t now_ns)
{
    s->now_ns = now_ns;
    s->folded = 0;
    for (struct series_point *point = s->points; point; point = point->hh.next)
        point->live = (struct io_counters){0};
}

int io_series_add(struct io_series *s, const struct job *job, const char *mountpoint, const char *fstype,
                  const struct io_key *key, int error, const struct io_counters *counters, bool is_final)
{
    static const struct job other = {.manager = "other", .id = "other"};
    struct series_point *point = find_point(s, job ? job : &other, mountpoint, fstype, key, error, true);
    if (!point) {
        const struct io_key folded = {.operation = key->operation};
        s->folded++;
        point = find_point(s, &other, "unknown", "", &folded, error, false);
    }
    if (!point)
        return -ENOMEM;
    io_counters_add(is_final ? &point->past : &point->live, counters);
    if (!is_final || !point->job->live_ns)
        point->job->live_ns = s->now_ns;
    return 0;
}

void io_series_keep(struct io_series *s, const struct job *job)
{
    _cleanup_free_ char *key = join(job->manager, job->id);
    struct series_job *found = key ? look_up_job(s, key) : NULL;
    if (found)
        found->live_ns = s->now_ns;
}

void io_series_end(struct io_series *s)
{
    struct series_point *point, *next;
    HASH_ITER (hh, s->points, point, next)
        if (!is_other(&point->job->job) && point->job->live_ns + IO_KEEP_NS < s->now_ns)
            forget_point(s, point);
}

void io_series_each(const struct io_series *s, void (*take)(void *context, const struct io_point *point), void *context)
{
    for (const struct series_point *p = s->points; p; p = p->hh.next) {
        struct io_point point = {.job = &p->job->job,
                                 .mountpoint = p->place->mountpoint,
                                 .fstype = p->place->fstype,
                                 .operation = p->key.operation,
                                 .flags = p->key.flags,
                                 .error = p->key.error,
                                 .counters = p->past};
        io_counters_add(&point.counters, &p->live);
        take(context, &point);
    }
}

void io_series_each_job(const struct io_series *s, void (*take)(void *context, const struct job *job), void *context)
{
    for (const struct series_job *job = s->jobs; job; job = job->hh.next)
        if (!is_other(&job->job))
            take(context, &job->job);
}

size_t io_series_count(const struct io_series *s)
{
    return HASH_COUNT(s->points);
}

size_t io_series_folded(const struct io_series *s)
{
    return s->folded;
}
