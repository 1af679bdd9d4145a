/* See grown_places.h. */
#include "signals/oom/grown_places.h"

#include "diagnose/code/code_tally.h"

#include <stdbool.h>
#include <string.h>

static bool is_same_place(const struct code_place *a, const struct code_place *b)
{
    return a->line == b->line && strcmp(a->function, b->function) == 0 && strcmp(a->file, b->file) == 0 &&
           strcmp(a->runs, b->runs) == 0;
}

static uint16_t find_place(struct grown_places *g, const struct code_place *place)
{
    uint16_t unused = GROWN_PLACES;
    for (uint16_t i = 0; i < GROWN_PLACES; i++) {
        if (g->uses[i] && is_same_place(&g->places[i], place))
            return i;
        unused = g->uses[i] ? unused : i;
    }
    if (unused < GROWN_PLACES)
        g->places[unused] = *place;
    return unused;
}

void grown_places_add(struct grown_places *g, uint64_t time_ns, uint32_t pid, uint64_t faults,
                      const struct code_place *place)
{
    struct grown_sample *sample = &g->samples[g->next++ % GROWN_SAMPLES];
    if (sample->pid && sample->place < GROWN_PLACES)
        g->uses[sample->place]--;
    *sample = (struct grown_sample){.time_ns = time_ns,
                                    .pid = pid,
                                    .faults = faults < UINT32_MAX ? (uint32_t)faults : UINT32_MAX,
                                    .place = find_place(g, place)};
    if (sample->place < GROWN_PLACES)
        g->uses[sample->place]++;
}

/* Adds the samples of the process to `tally`. Those `of_own_code` alone have a place; the others count for the whole.
 */
static void add_samples(const struct grown_places *g, uint32_t pid, uint64_t since_ns, bool of_own_code,
                        struct code_tally *tally)
{
    code_tally_begin(tally);
    for (size_t i = 0; i < GROWN_SAMPLES; i++) {
        const struct grown_sample *s = &g->samples[i];
        if (s->pid != pid || s->time_ns < since_ns)
            continue;
        const struct code_place *place = s->place < GROWN_PLACES ? &g->places[s->place] : NULL;
        if (place && (!of_own_code || place->function[0]))
            code_tally_add_many(tally, place, s->faults);
        else
            tally->samples += s->faults;
    }
}

unsigned grown_places_most(const struct grown_places *g, uint32_t pid, uint64_t since_ns, struct code_place *ret)
{
    struct code_tally tally;
    add_samples(g, pid, since_ns, true, &tally);
    if (!tally.count)
        add_samples(g, pid, since_ns, false, &tally);
    const size_t most = code_tally_most(&tally, ret), percent = tally.samples ? 100 * most / tally.samples : 0;
    return most && !percent ? 1 : (unsigned)percent;
}
