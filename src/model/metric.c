/* A set of metrics for one scrape; see metric.h. Created for each scrape and discarded, so rows are plain growing
 * arrays and strings one table. Names are checked here, once, so that no exporter can write a broken page. */
#include "model/metric.h"

#include "base/strings.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

struct family {
    struct metric_family seen; /* as seen by readers; `points` is set when it is read */
    struct metric_point *points;
    size_t capacity;
};

/* Bounds and counts of histograms, borrowed by points. */
struct numbers {
    struct numbers *next;
    uint64_t data[];
};

struct exemplars {
    struct exemplars *next;
    struct metric_exemplar list[];
};

struct metric_set {
    atomic_uint references;
    struct strings *texts;
    struct family *families;
    size_t count, capacity;
    struct numbers *numbers;
    struct exemplars *exemplars;
    size_t last_histogram; /* 1 + index of the family of the last histogram point; 0: none, or it was not added */
    int error;
};

#define LABELS_MAX (sizeof((struct metric_point){0}.labels) / sizeof(struct metric_label))

int metric_set_new(struct metric_set **ret)
{
    _cleanup_(metric_set_freep) struct metric_set *set = calloc(1, sizeof(*set));
    if (!set)
        return -ENOMEM;
    atomic_init(&set->references, 1);
    int r = strings_new(&set->texts);
    if (r < 0)
        return r;
    *ret = take_ptr(set);
    return 0;
}

struct metric_set *metric_set_ref(struct metric_set *set)
{
    atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
    return set;
}

void metric_set_free(struct metric_set *set)
{
    if (!set || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < set->count; i++)
        free(set->families[i].points);
    for (struct numbers *n = set->numbers, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    for (struct exemplars *e = set->exemplars, *next; e; e = next) {
        next = e->next;
        free(e);
    }
    free(set->families);
    strings_free(set->texts);
    free(set);
}

static void set_error(struct metric_set *set, int error)
{
    if (!set->error)
        set->error = error;
}

static const char *copy_string(struct metric_set *set, const char *text)
{
    uint32_t number = strings_add(set->texts, text);
    if (strings_dropped(set->texts))
        set_error(set, -ENOMEM);
    return strings_get(set->texts, number);
}

/* Makes sure that `array` has space for one more than `count` elements; false when out of memory. */
static bool reserve(struct metric_set *set, void *array, size_t *capacity, size_t count, size_t element_bytes)
{
    void **at = array;
    if (count < *capacity)
        return true;
    size_t more = *capacity ? *capacity * 2 : 4;
    void *grown = realloc(*at, more * element_bytes);
    if (!grown) {
        set_error(set, -ENOMEM);
        return false;
    }
    *at = grown;
    *capacity = more;
    return true;
}

static bool is_name(const char *name, bool colons)
{
    size_t i = 0;
    for (; name[i]; i++) {
        const char c = name[i];
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colons && c == ':');
        if (!is_letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return i > 0;
}

static bool ends_with(const char *name, const char *end)
{
    size_t size = strlen(name), end_size = strlen(end);
    return size > end_size && strcmp(name + size - end_size, end) == 0;
}

static bool has_unit(const char *name, const char *unit)
{
    size_t size = strlen(name), unit_size = strlen(unit);
    return !unit_size || (ends_with(name, unit) && name[size - unit_size - 1] == '_');
}

/* Suffixes that the exporter appends are rejected: the page would have them twice, or clash with another family. */
static bool is_family_name(const char *name, enum metric_type type, const char *unit)
{
    static const char *const reserved[] = {"_total", "_created", "_bucket", "_count", "_sum", "_info"};
    for (size_t i = 0; i < array_size(reserved); i++)
        if (ends_with(name, reserved[i]))
            return false;
    return is_name(name, true) && has_unit(name, unit) && (type != METRIC_INFO || !unit[0]);
}

static struct family *find_family(struct metric_set *set, const char *name, enum metric_type type, const char *unit,
                                  const char *help)
{
    for (size_t i = 0; i < set->count; i++) {
        struct family *family = &set->families[i];
        if (strcmp(family->seen.name, name) != 0)
            continue;
        if (family->seen.type == type && strcmp(family->seen.unit, unit) == 0)
            return family;
        set_error(set, -EINVAL);
        return NULL;
    }
    if (!is_family_name(name, type, unit)) {
        set_error(set, -EINVAL);
        return NULL;
    }
    if (!reserve(set, &set->families, &set->capacity, set->count, sizeof(*set->families)))
        return NULL;
    struct family *family = &set->families[set->count++];
    *family = (struct family){.seen = {.name = copy_string(set, name),
                                       .unit = copy_string(set, unit),
                                       .help = copy_string(set, help),
                                       .type = type}};
    return family;
}

static struct metric_point *add_point(struct metric_set *set, struct family *family, const struct metric_label *labels,
                                      size_t label_count)
{
    bool is_valid = label_count <= LABELS_MAX;
    for (size_t i = 0; is_valid && i < label_count; i++)
        is_valid = is_name(labels[i].name, false) && strncmp(labels[i].name, "__", 2) != 0;
    if (!is_valid) {
        set_error(set, -EINVAL);
        return NULL;
    }
    if (!reserve(set, &family->points, &family->capacity, family->seen.point_count, sizeof(*family->points)))
        return NULL;
    struct metric_point *point = &family->points[family->seen.point_count++];
    *point = (struct metric_point){.label_count = label_count};
    for (size_t i = 0; i < label_count; i++)
        point->labels[i] = (struct metric_label){copy_string(set, labels[i].name), copy_string(set, labels[i].value)};
    return point;
}

void metric_add(struct metric_set *set, const char *name, enum metric_type type, const char *unit, const char *help,
                double value, const struct metric_label *labels, size_t label_count)
{
    struct family *family = find_family(set, name, type, unit, help);
    struct metric_point *point = family ? add_point(set, family, labels, label_count) : NULL;
    if (point)
        point->value = value;
}

static bool copy_numbers(struct metric_set *set, struct metric_point *point, const double *bounds,
                         const uint64_t *counts, size_t bound_count)
{
    static_assert(sizeof(double) == sizeof(uint64_t), "bounds and counts share an array");
    struct numbers *numbers = malloc(sizeof(*numbers) + (2 * bound_count + 1) * sizeof(uint64_t));
    if (!numbers) {
        set_error(set, -ENOMEM);
        return false;
    }
    numbers->next = set->numbers;
    set->numbers = numbers;
    memcpy(numbers->data, counts, (bound_count + 1) * sizeof(*counts));
    double *copy = (double *)(void *)(numbers->data + bound_count + 1);
    if (bound_count)
        memcpy(copy, bounds, bound_count * sizeof(*bounds));
    point->counts = numbers->data;
    point->bounds = copy;
    point->bound_count = bound_count;
    return true;
}

void metric_add_histogram(struct metric_set *set, const char *name, const char *unit, const char *help,
                          const double *bounds, const uint64_t *counts, size_t bound_count, double sum,
                          const struct metric_label *labels, size_t label_count)
{
    set->last_histogram = 0;
    for (size_t i = 1; i < bound_count; i++)
        if (bounds[i] <= bounds[i - 1]) {
            set_error(set, -EINVAL);
            return;
        }
    struct family *family = find_family(set, name, METRIC_HISTOGRAM, unit, help);
    struct metric_point *point = family ? add_point(set, family, labels, label_count) : NULL;
    if (!point)
        return;
    point->value = sum;
    if (copy_numbers(set, point, bounds, counts, bound_count))
        set->last_histogram = (size_t)(family - set->families) + 1;
    else
        family->seen.point_count--;
}

/* The exemplars of a point, all of them none at first. */
static struct metric_exemplar *add_exemplars(struct metric_set *set, struct metric_point *point)
{
    struct exemplars *exemplars = calloc(1, sizeof(*exemplars) + (point->bound_count + 1) * sizeof(exemplars->list[0]));
    if (!exemplars) {
        set_error(set, -ENOMEM);
        return NULL;
    }
    exemplars->next = set->exemplars;
    set->exemplars = exemplars;
    point->exemplars = exemplars->list;
    return exemplars->list;
}

void metric_add_exemplar(struct metric_set *set, size_t bucket, const struct metric_exemplar *exemplar)
{
    if (!set->last_histogram)
        return;
    const struct family *family = &set->families[set->last_histogram - 1];
    struct metric_point *point = &family->points[family->seen.point_count - 1];
    assert(bucket <= point->bound_count);
    struct metric_exemplar *list = point->exemplars ? set->exemplars->list : add_exemplars(set, point);
    if (!list)
        return;
    list[bucket] = *exemplar;
    list[bucket].trace_id = copy_string(set, exemplar->trace_id);
    list[bucket].span_id = copy_string(set, exemplar->span_id);
}

int metric_set_error(const struct metric_set *set)
{
    return set->error;
}

static void add_histogram_of(struct metric_set *set, const struct metric_family *f, const struct metric_point *p)
{
    metric_add_histogram(set, f->name, f->unit, f->help, p->bounds, p->counts, p->bound_count, p->value, p->labels,
                         p->label_count);
    for (size_t i = 0; p->exemplars && i <= p->bound_count; i++)
        if (p->exemplars[i].trace_id)
            metric_add_exemplar(set, i, &p->exemplars[i]);
}

void metric_add_set(struct metric_set *set, const struct metric_set *other)
{
    for (size_t i = 0; i < metric_set_families(other); i++) {
        const struct metric_family f = metric_set_family(other, i);
        for (size_t n = 0; n < f.point_count; n++) {
            const struct metric_point *p = &f.points[n];
            if (f.type == METRIC_HISTOGRAM)
                add_histogram_of(set, &f, p);
            else
                metric_add(set, f.name, f.type, f.unit, f.help, p->value, p->labels, p->label_count);
        }
    }
    if (metric_set_error(other) < 0)
        set_error(set, metric_set_error(other));
}

size_t metric_set_families(const struct metric_set *set)
{
    return set->count;
}

struct metric_family metric_set_family(const struct metric_set *set, size_t i)
{
    struct metric_family family = set->families[i].seen;
    family.points = set->families[i].points;
    return family;
}
