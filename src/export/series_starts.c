/* Starts of series; see series_starts.h. Two arrays: the last collection, sorted by series, and the current one. */
#include "export/series_starts.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct series {
    uint64_t series, start_ns;
    double value;
};

struct collection {
    struct series *series;
    size_t count, capacity;
    uint64_t time_ns, read_ns;
};

struct series_starts {
    struct collection last, now;
    int error; /* of the current collection */
};

int series_starts_new(uint64_t start_ns, struct series_starts **ret)
{
    struct series_starts *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->last.time_ns = s->last.read_ns = start_ns;
    *ret = s;
    return 0;
}

void series_starts_free(struct series_starts *s)
{
    if (!s)
        return;
    free(s->last.series);
    free(s->now.series);
    free(s);
}

void series_starts_begin(struct series_starts *s, uint64_t time_ns, uint64_t read_ns)
{
    s->now.count = 0;
    s->now.time_ns = time_ns;
    s->now.read_ns = read_ns;
    s->error = 0;
}

static int compare_series(const void *left, const void *right)
{
    const struct series *a = left, *b = right;
    return (a->series > b->series) - (a->series < b->series);
}

static void keep_series(struct series_starts *s, const struct series *series)
{
    struct collection *c = &s->now;
    if (c->count == c->capacity) {
        const size_t more = c->capacity ? c->capacity * 2 : 256;
        struct series *grown = realloc(c->series, more * sizeof(*grown));
        if (!grown) {
            s->error = -ENOMEM;
            return;
        }
        c->series = grown;
        c->capacity = more;
    }
    c->series[c->count++] = *series;
}

uint64_t series_starts_find(struct series_starts *s, uint64_t series, double value)
{
    struct series found = {.series = series, .start_ns = s->last.read_ns, .value = value};
    const struct series *last =
        s->last.count ? bsearch(&found, s->last.series, s->last.count, sizeof(found), compare_series) : NULL;
    if (last)
        found.start_ns = value < last->value ? s->last.time_ns : last->start_ns;
    keep_series(s, &found);
    return found.start_ns;
}

int series_starts_end(struct series_starts *s)
{
    const struct collection reused = s->last;
    if (s->now.count)
        qsort(s->now.series, s->now.count, sizeof(*s->now.series), compare_series);
    s->last = s->now;
    s->now = reused;
    return s->error;
}
