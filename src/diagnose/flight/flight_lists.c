/* Two passes over the window: the first one counts the entries of each list, the second one fills the lists; see
 * flight_lists.h. */
#include "diagnose/flight/flight_lists.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

/* An event of a list: found in a first pass, put there in a second one, when all lists' lengths are known. */
struct place {
    uint32_t list, record;
    enum flight_role role;
};

static size_t slot_of(const struct flight_lists *l, uint64_t key)
{
    size_t slot = (key * 0x9e3779b97f4a7c15ull >> 20) & (l->slot_count - 1);
    while (l->slots[slot] && l->lists[l->slots[slot] - 1].key != key)
        slot = (slot + 1) & (l->slot_count - 1);
    return slot;
}

static int grow_lists(struct flight_lists *l)
{
    struct flight_lists grown = {.count = l->count, .slot_count = l->slot_count ? 2 * l->slot_count : 256};
    grown.slots = calloc(grown.slot_count, sizeof(*grown.slots));
    grown.lists = reallocarray(l->lists, grown.slot_count / 2, sizeof(*grown.lists));
    if (grown.lists)
        l->lists = grown.lists;
    if (!grown.slots || !grown.lists) {
        free(grown.slots);
        return -ENOMEM;
    }
    for (size_t i = 0; i < l->count; i++)
        grown.slots[slot_of(&grown, l->lists[i].key)] = (uint32_t)i + 1;
    free(l->slots);
    *l = grown;
    return 0;
}

/* Counts one more event of `key`, and returns the number of its list. */
static int count_event(struct flight_lists *l, uint64_t key, uint32_t *ret_number)
{
    if (2 * (l->count + 1) > l->slot_count && grow_lists(l) < 0)
        return -ENOMEM;
    const size_t slot = slot_of(l, key);
    if (!l->slots[slot]) {
        l->lists[l->count] = (struct flight_list){.key = key, .number = (uint32_t)l->count};
        l->slots[slot] = (uint32_t)++l->count;
    }
    *ret_number = l->slots[slot] - 1;
    l->lists[*ret_number].count++;
    return 0;
}

/* Gives each list its part of the events, which are counted so far. */
static int allocate_events(struct flight_lists *l, size_t total)
{
    l->events = calloc(total + 1, sizeof(*l->events));
    l->hints = calloc(l->count + 1, sizeof(*l->hints));
    if (!l->events || !l->hints)
        return -ENOMEM;
    struct flight_event *at = l->events;
    for (size_t i = 0; i < l->count; i++) {
        l->lists[i].events = at;
        l->lists[i].hint = &l->hints[i];
        at += l->lists[i].count;
        l->lists[i].count = 0;
    }
    return 0;
}

static void put_event(struct flight_lists *l, const struct place *place, const struct recorder_record *record)
{
    struct flight_list *list = &l->lists[place->list];
    struct flight_event *events = l->events + (list->events - l->events);
    events[list->count++] = (struct flight_event){.record = record, .role = place->role, .woken = FLIGHT_NONE};
}

int flight_lists_fill(struct flight_lists *l, const struct flight_window *window, flight_entries_fn entries_of)
{
    _cleanup_free_ struct place *places = reallocarray(NULL, window->count + 1, FLIGHT_ENTRIES_MAX * sizeof(*places));
    struct flight_entry entries[FLIGHT_ENTRIES_MAX];
    size_t total = 0;
    if (!places)
        return -ENOMEM;
    for (size_t i = 0; i < window->count; i++) {
        const size_t n = entries_of(&window->records[i], entries);
        for (size_t k = 0; k < n; k++) {
            if (entries[k].key == 0) /* the idle thread */
                continue;
            places[total] = (struct place){.record = (uint32_t)i, .role = entries[k].role};
            if (count_event(l, entries[k].key, &places[total++].list) < 0)
                return -ENOMEM;
        }
    }
    if (allocate_events(l, total) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < total; i++)
        put_event(l, &places[i], &window->records[places[i].record]);
    return 0;
}

void flight_lists_clear(struct flight_lists *l)
{
    free(l->lists);
    free(l->slots);
    free(l->events);
    free(l->hints);
}

const struct flight_list *flight_lists_find(const struct flight_lists *l, uint64_t key)
{
    if (!l->slot_count)
        return NULL;
    const uint32_t at = l->slots[slot_of(l, key)];
    return at ? &l->lists[at - 1] : NULL;
}
