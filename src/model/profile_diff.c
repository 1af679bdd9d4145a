/* Compares two profiles; see profile_diff.h. The stacks of both are written out as names, sorted, and equal ones
 * joined. */
#include "model/profile_diff.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIGMAS 3

/* Maps the frames of one side to names. */
struct naming {
    const struct profile *p;
    uint32_t *names; /* by frame */
    uint32_t *seen;  /* by name: 1 + the entry of this side that counted it last */
};

static void naming_clear(struct naming *n)
{
    free(n->names);
    free(n->seen);
}

static int name_frames(struct profile_diff *d, const struct profile *p, struct naming *n)
{
    n->p = p;
    n->names = calloc((size_t)p->frame_count + 1, sizeof(*n->names));
    if (!n->names)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->frame_count; i++) {
        char text[FRAME_TEXT_BYTES];
        n->names[i] = strings_add(d->names, profile_frame_text(p, &p->frames[i], text));
    }
    for (uint32_t i = 0; i < p->resource_count; i++)
        strings_add(d->names, profile_text(p, p->resources[i].command));
    return strings_dropped(d->names) ? -ENOMEM : 0;
}

static void add_amount(struct diff_amount *amount, const struct profile_entry *entry)
{
    const double weight = (double)entry->value;
    amount->weight += entry->value;
    amount->samples += entry->count;
    amount->squares += weight * weight / fmax(1, (double)entry->count);
}

/* ---- functions ---- */

static void add_functions(struct profile_diff *d, struct naming *n, int side)
{
    for (uint32_t i = 0; i < n->p->entry_count; i++) {
        const struct profile_entry *entry = &n->p->entries[i];
        const struct profile_stack *stack = &n->p->stacks[entry->stack];
        const uint32_t *frames = n->p->stack_frames + stack->first;
        add_amount(&d->whole[side], entry);
        if (stack->count)
            add_amount(&d->functions[n->names[frames[0]]].self[side], entry);
        for (uint32_t j = 0; j < stack->count; j++) {
            const uint32_t name = n->names[frames[j]];
            if (n->seen[name] != i + 1)
                add_amount(&d->functions[name].total[side], entry);
            n->seen[name] = i + 1;
        }
    }
}

/* Removes the rows of names that are not functions. */
static void pack_functions(struct profile_diff *d, size_t names)
{
    for (size_t i = 0; i < names; i++) {
        d->functions[i].name = (uint32_t)i;
        if (d->functions[i].total[DIFF_BEFORE].weight || d->functions[i].total[DIFF_AFTER].weight)
            d->functions[d->function_count++] = d->functions[i];
    }
}

/* ---- stacks ---- */

static int count_names(const struct profile *p, size_t *names)
{
    for (uint32_t i = 0; i < p->entry_count; i++)
        if (__builtin_add_overflow(*names, (size_t)p->stacks[p->entries[i].stack].count + 1, names))
            return -EFBIG;
    return *names > UINT32_MAX ? -EFBIG : 0;
}

static void add_stacks(struct profile_diff *d, const struct naming *n, int side, uint32_t *at)
{
    for (uint32_t i = 0; i < n->p->entry_count; i++) {
        const struct profile_entry *entry = &n->p->entries[i];
        const struct profile_stack *stack = &n->p->stacks[entry->stack];
        const uint32_t process = strings_add(d->names, profile_text(n->p, n->p->resources[entry->resource].command));
        struct diff_stack *s = &d->stacks[d->stack_count++];
        *s = (struct diff_stack){.first = *at};
        d->stack_names[(*at)++] = process;
        for (uint32_t j = stack->count; j-- > 0;)
            d->stack_names[(*at)++] = n->names[n->p->stack_frames[stack->first + j]];
        s->count = *at - s->first;
        add_amount(&s->amount[side], entry);
    }
}

static int compare_stacks(const void *left, const void *right, void *names)
{
    const struct diff_stack *a = left, *b = right;
    const uint32_t *x = (const uint32_t *)names + a->first, *y = (const uint32_t *)names + b->first;
    for (uint32_t i = 0; i < a->count && i < b->count; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return (a->count > b->count) - (a->count < b->count);
}

static void join_stacks(struct profile_diff *d)
{
    size_t kept = 0;
    qsort_r(d->stacks, d->stack_count, sizeof(*d->stacks), compare_stacks, d->stack_names);
    for (size_t i = 0; i < d->stack_count; i++) {
        struct diff_stack *last = kept ? &d->stacks[kept - 1] : NULL;
        if (!last || compare_stacks(last, &d->stacks[i], d->stack_names) != 0) {
            d->stacks[kept++] = d->stacks[i];
            continue;
        }
        for (int side = 0; side < DIFF_SIDES; side++) {
            last->amount[side].weight += d->stacks[i].amount[side].weight;
            last->amount[side].samples += d->stacks[i].amount[side].samples;
            last->amount[side].squares += d->stacks[i].amount[side].squares;
        }
    }
    d->stack_count = kept;
}

static int build_stacks(struct profile_diff *d, const struct naming n[DIFF_SIDES])
{
    size_t names = 0;
    uint32_t at = 0;
    int r = count_names(n[DIFF_BEFORE].p, &names);
    if (r == 0)
        r = count_names(n[DIFF_AFTER].p, &names);
    if (r < 0)
        return r;
    d->stack_names = calloc(names + 1, sizeof(*d->stack_names));
    d->stacks = calloc((size_t)n[DIFF_BEFORE].p->entry_count + n[DIFF_AFTER].p->entry_count + 1, sizeof(*d->stacks));
    if (!d->stack_names || !d->stacks)
        return -ENOMEM;
    for (int side = 0; side < DIFF_SIDES; side++)
        add_stacks(d, &n[side], side, &at);
    join_stacks(d);
    return 0;
}

/* ---- the whole ---- */

static int build(struct profile_diff *d, struct naming n[DIFF_SIDES])
{
    const size_t names = strings_count(d->names);
    d->functions = calloc(names, sizeof(*d->functions));
    if (!d->functions)
        return -ENOMEM;
    for (int side = 0; side < DIFF_SIDES; side++) {
        n[side].seen = calloc(names, sizeof(*n[side].seen));
        if (!n[side].seen)
            return -ENOMEM;
        add_functions(d, &n[side], side);
        d->duration_ns[side] = n[side].p->duration_ns;
        d->not_observed_ns[side] = n[side].p->not_observed_ns;
        snprintf(d->type, sizeof(d->type), "%s", n[side].p->type->name);
    }
    pack_functions(d, names);
    return build_stacks(d, n);
}

int profile_diff_new(const struct profile *before, const struct profile *after, struct profile_diff **ret)
{
    _cleanup_(profile_diff_freep) struct profile_diff *d = calloc(1, sizeof(*d));
    struct naming n[DIFF_SIDES] = {0};
    if (!d)
        return -ENOMEM;
    int r = strings_new(&d->names);
    if (r == 0)
        r = name_frames(d, before, &n[DIFF_BEFORE]);
    if (r == 0)
        r = name_frames(d, after, &n[DIFF_AFTER]);
    if (r == 0)
        r = build(d, n);
    for (int side = 0; side < DIFF_SIDES; side++)
        naming_clear(&n[side]);
    if (r == 0)
        *ret = take_ptr(d);
    return r;
}

void profile_diff_free(struct profile_diff *d)
{
    if (!d)
        return;
    strings_free(d->names);
    free(d->functions);
    free(d->stack_names);
    free(d->stacks);
    free(d);
}

const char *profile_diff_why_not(const struct profile_diff *d)
{
    static const char *const no_samples[] = {"before has no samples: nothing can be compared",
                                             "after has no samples: nothing can be compared"};
    static const char *const not_monitored[] = {"before was not monitored: nothing can be compared",
                                                "after was not monitored: nothing can be compared"};
    for (int side = 0; side < DIFF_SIDES; side++)
        if (!d->whole[side].weight)
            return d->not_observed_ns[side] && !d->duration_ns[side] ? not_monitored[side] : no_samples[side];
    if (strcmp(d->type, sample_type_wall.name) == 0 &&
        (d->not_observed_ns[DIFF_BEFORE] || d->not_observed_ns[DIFF_AFTER]))
        return "off-CPU time was not monitored throughout: wall-clock time cannot be compared; compare 'cpu' or 'off_cpu' instead";
    return NULL;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* A share is a ratio of two sums of weights. Its variance is, to first order, the sum over the samples of (weight *
 * ((1 if in the part, else 0) - share))^2, divided by the square of the whole. The squares of both sides are pooled,
 * in units of each side's mean weight, because the null hypothesis is that both are drawn from one distribution: a
 * heavy sample that occurs on one side only counts for both. Equal weights give p * (1 - p) * (1/n + 1/m). */
double profile_diff_spread(const struct profile_diff *d, const struct diff_amount *amount)
{
    double squares = 0, samples = 0, drawn = 0;
    for (int side = 0; side < DIFF_SIDES; side++) {
        const double n = (double)d->whole[side].samples, mean = n > 0 ? (double)d->whole[side].weight / n : 0;
        if (mean == 0)
            return 0;
        squares += amount[side].squares / (mean * mean);
        samples += n;
        drawn += d->is_exact[side] ? 0 : 1 / n;
    }
    return squares / samples * drawn;
}

struct diff_change profile_diff_change(const struct profile_diff *d, const struct diff_amount *amount)
{
    const double n = (double)d->whole[DIFF_BEFORE].samples, m = (double)d->whole[DIFF_AFTER].samples;
    struct diff_change c = {.before = share(amount[DIFF_BEFORE].weight, d->whole[DIFF_BEFORE].weight),
                            .after = share(amount[DIFF_AFTER].weight, d->whole[DIFF_AFTER].weight)};
    if (n > 0 && m > 0) {
        const double p = (c.before * n + c.after * m) / (n + m);
        const double part = profile_diff_spread(d, amount), rest = fmax(0, profile_diff_spread(d, d->whole) - part);
        c.noise = fmin(1, SIGMAS * sqrt((1 - p) * (1 - p) * part + p * p * rest));
    }
    return c;
}

bool diff_is_significant(const struct diff_change *c)
{
    return fabs(diff_change_of(c)) > c->noise;
}
