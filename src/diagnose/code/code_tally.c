/* Counts places; see code_tally.h. */
#include "diagnose/code/code_tally.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <string.h>

/* The source file of native code is known some time after its function, for some of its addresses before others. */
static bool is_same_file(const struct code_place *a, const struct code_place *b)
{
    return !a->file[0] || !b->file[0] || strcmp(a->file, b->file) == 0;
}

static bool is_same_function(const struct code_place *a, const struct code_place *b)
{
    return a->function[0] ? strcmp(a->function, b->function) == 0 && is_same_file(a, b)
                          : !b->function[0] && strcmp(a->runs, b->runs) == 0;
}

static bool is_same_line(const struct code_place *a, const struct code_place *b)
{
    return is_same_function(a, b) && a->line == b->line;
}

/* Places without a line do not count. */
static bool is_same_known_line(const struct code_place *a, const struct code_place *b)
{
    return a->line && is_same_line(a, b);
}

static bool is_same_place(const struct code_place *a, const struct code_place *b)
{
    return is_same_line(a, b) && strcmp(a->runs, b->runs) == 0;
}

typedef bool is_same(const struct code_place *a, const struct code_place *b);

void code_tally_add_many(struct code_tally *t, const struct code_place *place, size_t samples)
{
    static is_same *const relations[] = {is_same_place, is_same_line, is_same_function};
    t->samples += samples;
    for (size_t r = 0; r < (t->count < CODE_TALLY_PLACES ? 1U : array_size(relations)); r++)
        for (size_t i = 0; i < t->count; i++)
            if (relations[r](&t->places[i].place, place)) {
                t->places[i].samples += samples;
                return;
            }
    if (t->count < CODE_TALLY_PLACES)
        t->places[t->count++] = (struct code_tally_place){*place, samples};
}

/* Of the places that are in relation `within` to `of` (NULL: all), the one whose like by `alike` has the most samples.
 */
static const struct code_place *find_most(const struct code_tally *t, is_same *within, const struct code_place *of,
                                          is_same *alike, size_t *ret_samples)
{
    const struct code_place *found = NULL;
    *ret_samples = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct code_place *p = &t->places[i].place;
        size_t sum = 0;
        if (of && !within(of, p))
            continue;
        for (size_t k = 0; k < t->count; k++)
            sum += alike(p, &t->places[k].place) ? t->places[k].samples : 0;
        if (sum > *ret_samples) {
            *ret_samples = sum;
            found = p;
        }
    }
    return found;
}

size_t code_tally_most(const struct code_tally *t, struct code_place *ret)
{
    size_t samples, unused;
    const struct code_place *function = find_most(t, NULL, NULL, is_same_function, &samples);
    if (!function)
        return 0;
    const struct code_place *line = find_most(t, is_same_function, function, is_same_known_line, &unused) ?: function;
    *ret = *find_most(t, is_same_line, line, is_same_place, &unused);
    return samples;
}
