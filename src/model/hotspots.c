/* Functions over time; see hotspots.h. Functions are numbered by the tables of a profile that contains only frames.
 * Window data is a sparse list of (window, function, value), so that memory depends on the functions in each window
 * only. */
#include "model/hotspots.h"

#include "model/profile_tables.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct cell {
    uint32_t window, function;
    uint64_t value;
};

struct hotspots_sums {
    struct profile *functions; /* its frames; without addresses */
    struct cell *cells;
    size_t count, capacity;
};

int hotspots_new(const struct hotspots_options *options, uint32_t windows, struct hotspots **ret)
{
    _cleanup_(hotspots_freep) struct hotspots *h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->options = *options;
    h->window_count = windows;
    h->windows = calloc((size_t)windows + 1, sizeof(*h->windows));
    h->sums = calloc(1, sizeof(*h->sums));
    int r = h->windows && h->sums ? profile_new(0, &h->sums->functions) : -ENOMEM;
    if (r == 0)
        *ret = take_ptr(h);
    return r;
}

void hotspots_free(struct hotspots *h)
{
    if (!h)
        return;
    if (h->sums) {
        profile_free(h->sums->functions);
        free(h->sums->cells);
    }
    free(h->sums);
    free(h->windows);
    free(h->rows);
    free(h->values);
    free(h);
}

/* ---- one window ---- */

static int number_functions(struct hotspots_sums *sums, const struct profile *p, uint32_t *numbers)
{
    int r = 0;
    for (uint32_t i = 0; i < p->frame_count && r == 0; i++) {
        char text[FRAME_TEXT_BYTES];
        struct profile_frame row = {.kind = p->frames[i].kind};
        r = profile_put_text(sums->functions, profile_frame_text(p, &p->frames[i], text), &row.function);
        if (r == 0)
            r = profile_put_text(sums->functions, profile_text(p, p->frames[i].mapping), &row.mapping);
        if (r == 0)
            r = profile_put_frame(sums->functions, &row, &numbers[i]);
    }
    return r;
}

/* `seen`: by function, 1 + the entry that counted it last, so that a recursive function is counted once. */
static void add_entry(const struct hotspots *h, const struct profile *p, uint32_t entry, const uint32_t *numbers,
                      uint32_t *seen, uint64_t *values)
{
    const struct profile_stack *stack = &p->stacks[p->entries[entry].stack];
    const uint32_t *frames = p->stack_frames + stack->first,
                   count = h->options.total || !stack->count ? stack->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t function = numbers[frames[i]];
        if (seen[function] != entry + 1)
            values[function] += p->entries[entry].value;
        seen[function] = entry + 1;
    }
}

static int keep_cells(struct hotspots_sums *sums, uint32_t window, const uint64_t *values)
{
    for (uint32_t i = 0; i < sums->functions->frame_count; i++) {
        if (!values[i])
            continue;
        if (sums->count == sums->capacity) {
            const size_t capacity = sums->capacity + sums->capacity / 2 + 256;
            struct cell *grown = realloc(sums->cells, capacity * sizeof(*grown));
            if (!grown)
                return -ENOMEM;
            sums->cells = grown;
            sums->capacity = capacity;
        }
        sums->cells[sums->count++] = (struct cell){.window = window, .function = i, .value = values[i]};
    }
    return 0;
}

int hotspots_add(struct hotspots *h, uint32_t window, const struct profile *p, const struct profile_filter *filter)
{
    assert(window < h->window_count && !h->rows);
    _cleanup_free_ uint32_t *numbers = calloc((size_t)p->frame_count + 1, sizeof(*numbers));
    int r = numbers ? number_functions(h->sums, p, numbers) : -ENOMEM;
    if (r < 0)
        return r;
    const size_t functions = h->sums->functions->frame_count;
    _cleanup_free_ uint32_t *seen = calloc(functions + 1, sizeof(*seen));
    _cleanup_free_ uint64_t *values = calloc(functions + 1, sizeof(*values));
    if (!seen || !values)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->entry_count; i++) {
        if (!profile_filter_matches(p, &p->resources[p->entries[i].resource], filter))
            continue;
        h->windows[window].value += p->entries[i].value;
        add_entry(h, p, i, numbers, seen, values);
    }
    h->dropped += p->dropped;
    return keep_cells(h->sums, window, values);
}

/* ---- all windows ---- */

struct ranked {
    uint32_t function, windows; /* number of windows with this function, among those whose rate counts */
    uint64_t value;
    double low, high; /* rates: value per nanosecond of monitored time */
};

/* A window monitored for less than half of its length, such as the newest, has no meaningful rate. */
static bool rate_counts(const struct hotspots_window *w)
{
    return w->duration_ns && w->duration_ns >= (w->end_ns - w->start_ns) / 2;
}

static void rank_cell(const struct hotspots *h, const struct cell *cell, struct ranked *r)
{
    const struct hotspots_window *w = &h->windows[cell->window];
    r->value += cell->value;
    if (!rate_counts(w))
        return;
    const double rate = (double)cell->value / (double)w->duration_ns;
    r->low = r->windows && r->low < rate ? r->low : rate;
    r->high = r->high > rate ? r->high : rate;
    r->windows++;
}

static int compare_texts(const struct profile *p, uint32_t a, uint32_t b)
{
    return a == b ? 0 : strcmp(profile_text(p, a), profile_text(p, b));
}

static int compare_ranked(const void *left, const void *right, void *context)
{
    const struct hotspots *h = context;
    const struct ranked *a = left, *b = right;
    const struct profile *p = h->sums->functions;
    const struct profile_frame *x = &p->frames[a->function], *y = &p->frames[b->function];
    const double change_a = a->high - a->low, change_b = b->high - b->low;
    int order = h->options.by_change ? (change_a < change_b) - (change_a > change_b) : 0;
    if (!order)
        order = (a->value < b->value) - (a->value > b->value);
    if (!order)
        order = compare_texts(p, x->function, y->function);
    if (!order)
        order = compare_texts(p, x->mapping, y->mapping);
    return order ? order : (int)x->kind - (int)y->kind;
}

static void rank(struct hotspots *h, struct ranked *ranked)
{
    const uint32_t functions = h->sums->functions->frame_count;
    uint32_t windows = 0;
    for (uint32_t i = 0; i < h->window_count; i++)
        windows += rate_counts(&h->windows[i]);
    for (size_t i = 0; i < h->sums->count; i++)
        rank_cell(h, &h->sums->cells[i], &ranked[h->sums->cells[i].function]);
    for (uint32_t i = 0; i < functions; i++) {
        if (!ranked[i].value)
            continue;
        ranked[h->function_count] = ranked[i];
        ranked[h->function_count].function = i;
        if (ranked[i].windows < windows)
            ranked[h->function_count].low = 0;
        h->function_count++;
    }
    qsort_r(ranked, h->function_count, sizeof(*ranked), compare_ranked, h);
}

static int make_rows(struct hotspots *h, const struct ranked *ranked)
{
    const struct profile *p = h->sums->functions;
    const uint32_t count = h->function_count < h->options.max ? h->function_count : h->options.max;
    _cleanup_free_ uint32_t *places =
        calloc((size_t)p->frame_count + 1, sizeof(*places)); /* by function: 1 + its row */
    h->rows = calloc((size_t)count + 1, sizeof(*h->rows));
    h->values = calloc((size_t)count * h->window_count + 1, sizeof(*h->values));
    if (!places || !h->rows || !h->values)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        const struct profile_frame *f = &p->frames[ranked[i].function];
        places[ranked[i].function] = i + 1;
        h->rows[i] = (struct hotspot){.function = profile_text(p, f->function),
                                      .mapping = profile_text(p, f->mapping),
                                      .kind = f->kind,
                                      .value = ranked[i].value,
                                      .values = h->values + (size_t)i * h->window_count};
    }
    h->row_count = count;
    for (uint32_t i = 0; i < h->window_count; i++)
        h->windows[i].others = h->options.total ? 0 : h->windows[i].value;
    for (size_t i = 0; i < h->sums->count; i++) {
        const struct cell *cell = &h->sums->cells[i];
        if (!places[cell->function])
            continue;
        h->rows[places[cell->function] - 1].values[cell->window] = cell->value;
        if (!h->options.total)
            h->windows[cell->window].others -= cell->value;
    }
    return 0;
}

int hotspots_finish(struct hotspots *h)
{
    assert(!h->rows);
    _cleanup_free_ struct ranked *ranked = calloc((size_t)h->sums->functions->frame_count + 1, sizeof(*ranked));
    if (!ranked)
        return -ENOMEM;
    rank(h, ranked);
    return make_rows(h, ranked);
}
