/* Finds the functions that contain an address, from one unit's tree of DWARF entries: the function itself, and those
 * inlined there. Runs only in the process that reads DWARF (line_helper.h). */
#pragma once

#include "resolve/lines/dwarf_library.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dwarf_place { /* an address to look up */
    uint64_t address;
    uint32_t number;
    bool reported;
};

/* The functions around a place: `die` is the innermost, `outer` the one it was inlined into. */
struct dwarf_scope {
    Dwarf_Die *die;
    const struct dwarf_scope *outer; /* NULL: `die` was not inlined */
};

/* Of `places`, sorted by address and not reported yet, the half-open index range of those in [begin, end). */
void dwarf_places_between(const struct dwarf_place *places, size_t count, uint64_t begin, uint64_t end,
                          size_t *ret_first, size_t *ret_end);

typedef void dwarf_tree_report(void *context, struct dwarf_place *place, const struct dwarf_scope *innermost);

/* Calls `report` once for each place inside a function of the unit. Returns 0, or -E2BIG: the tree has more entries
 * than the limit (or contains a cycle). */
int dwarf_tree_walk(const struct dwarf_library *dw, Dwarf_Die *unit, struct dwarf_place *places, size_t count,
                    dwarf_tree_report *report, void *context);
