/* Comparison of two profiles as text; see diff_text.h. */
#include "export/diff_text.h"

#include "export/folded.h"

#include <errno.h>
#include <math.h>

struct row {
    const struct diff_function *function;
    struct diff_change change;
};

static int compare_rows(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    const double x = diff_change_of(&a->change), y = diff_change_of(&b->change);
    if (x != y)
        return x > y ? -1 : 1;
    return (a->function->name > b->function->name) - (a->function->name < b->function->name);
}

static void put_whole(struct buf *out, const char *word, const struct profile_diff *d, int side, bool is_time)
{
    const double seconds = (double)d->duration_ns[side] / 1e9;
    buf_printf(out, "%-7s", word);
    if (d->whole[side].samples)
        buf_printf(out, " %llu samples", (unsigned long long)d->whole[side].samples);
    if (seconds > 0)
        buf_printf(out, " in %.1f s", seconds);
    if (is_time && seconds > 0)
        buf_printf(out, ", %.2f s each second", (double)d->whole[side].weight / 1e9 / seconds);
    if (d->not_observed_ns[side])
        buf_printf(out, "; not monitored for %.1f s", (double)d->not_observed_ns[side] / 1e9);
    buf_putc(out, '\n');
}

static void put_name(struct buf *out, const char *name)
{
    folded_put_text(out, name); /* also removes control characters, for the terminal */
    buf_putc(out, '\n');
}

static void put_row(struct buf *out, const struct profile_diff *d, const struct row *row)
{
    const struct diff_change *c = &row->change;
    buf_printf(out, "%+8.2f %8.2f %8.2f %6.2f  ", 100 * diff_change_of(c), 100 * c->before, 100 * c->after,
               100 * c->noise);
    put_name(out, strings_get(d->names, row->function->name));
}

/* Prints the `max` largest changes of either sign: those at both ends of the sorted rows. */
static void put_rows(struct buf *out, const struct profile_diff *d, const struct row *rows, size_t count, size_t max)
{
    size_t first = 0, last = 0;
    while (first + last < count && first + last < max) {
        const double grown = diff_change_of(&rows[first].change),
                     shrunk = diff_change_of(&rows[count - 1 - last].change);
        if (grown >= -shrunk)
            first++;
        else
            last++;
    }
    for (size_t i = 0; i < first; i++)
        put_row(out, d, &rows[i]);
    for (size_t i = count - last; i < count; i++)
        put_row(out, d, &rows[i]);
    if (first + last < count)
        buf_printf(out, "%8s %zu more changed by less\n", "...", count - first - last);
}

int diff_text_write(struct buf *out, const struct profile_diff *d, const struct diff_text_options *options)
{
    _cleanup_free_ struct row *rows = calloc(d->function_count + 1, sizeof(*rows));
    const bool is_exact = d->is_exact[DIFF_BEFORE] && d->is_exact[DIFF_AFTER];
    size_t count = 0, insignificant = 0;
    if (!rows)
        return -ENOMEM;
    for (size_t i = 0; i < d->function_count; i++) {
        const struct diff_function *f = &d->functions[i];
        const struct row row = {f, profile_diff_change(d, options->by_total ? f->total : f->self)};
        if (diff_change_of(&row.change) == 0)
            continue;
        if (options->all || diff_is_significant(&row.change))
            rows[count++] = row;
        else
            insignificant++;
    }
    qsort(rows, count, sizeof(*rows), compare_rows);
    put_whole(out, "before", d, DIFF_BEFORE, options->is_time);
    put_whole(out, "after", d, DIFF_AFTER, options->is_time);
    buf_printf(out, "\nShare of the total in %%, of each function %s:\n%8s %8s %8s %6s\n",
               options->by_total ? "with its callees (total)" : "itself (self)", "change", "before", "after", "+-");
    put_rows(out, d, rows, count, options->rows);
    if (!count)
        buf_printf(out, "      no function's share changed%s\n", is_exact ? "" : " beyond sampling noise");
    if (insignificant)
        buf_printf(out, "%8s %zu changed within sampling noise (+-, three standard deviations; --all shows them)\n",
                   "...", insignificant);
    if (is_exact)
        buf_puts(
            out,
            "\nEvery event was recorded, none sampled: the values are exact. The variation between recordings is unknown.\n");
    return buf_error(out);
}

int diff_folded_write(struct buf *out, const struct profile_diff *d)
{
    const double before = (double)d->whole[DIFF_BEFORE].weight, after = (double)d->whole[DIFF_AFTER].weight;
    const double larger = fmax(before, after);
    for (size_t i = 0; i < d->stack_count && !buf_error(out); i++) {
        const struct diff_stack *s = &d->stacks[i];
        const uint32_t first = d->stack_names[s->first] ? 0 : 1; /* 1: no process name to print */
        for (uint32_t j = first; j < s->count; j++) {
            if (j > first)
                buf_putc(out, ';');
            folded_put_text(out, strings_get(d->names, d->stack_names[s->first + j]));
        }
        buf_printf(out, " %.0f %.0f\n", before > 0 ? (double)s->amount[DIFF_BEFORE].weight * larger / before : 0,
                   after > 0 ? (double)s->amount[DIFF_AFTER].weight * larger / after : 0);
    }
    return buf_error(out);
}
