/* The records of a window in lists by a key: a thread, a socket, a task. Private to flight_index.c. */
#pragma once

#include "diagnose/flight/flight_index.h"

#define FLIGHT_ENTRIES_MAX 2 /* of one record */

struct flight_lists {
    struct flight_list *lists;
    size_t count;
    uint32_t *slots; /* hash table: 1 + index of a list; 0: free */
    size_t slot_count;
    struct flight_event *events;
    uint32_t *hints; /* of each list */
};

struct flight_entry {
    uint64_t key; /* 0: none */
    enum flight_role role;
};

/* The lists that a record is in; returns how many. */
typedef size_t (*flight_entries_fn)(const struct recorder_record *r, struct flight_entry ret[FLIGHT_ENTRIES_MAX]);

/* `l` is zeroed before; the caller clears it, also after an error. -ENOMEM. */
int flight_lists_fill(struct flight_lists *l, const struct flight_window *window, flight_entries_fn entries_of);
void flight_lists_clear(struct flight_lists *l);
/* Returns NULL if there is no list with this key. */
const struct flight_list *flight_lists_find(const struct flight_lists *l, uint64_t key);
