/* Which functions a place in the code lies in, by DWARF's tree of one unit: the function itself, and those that were
 * inlined there. In the process that reads DWARF alone (line_helper.h). */
#pragma once

#include "resolve/lines/dwarf_library.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dwarf_place { /* an address that is asked for */
    uint64_t address;
    uint32_t number;
    bool told;
};

/* The functions around a place: `die` is the innermost, `outer` what it was inlined into. */
struct dwarf_scope {
    Dwarf_Die *die;
    const struct dwarf_scope *outer; /* NULL: `die` was not inlined */
};

/* Of `places`, in order of address and not told yet, those in [begin, end): the first, and behind the last. */
void dwarf_places_between(const struct dwarf_place *places, size_t count, uint64_t begin, uint64_t end,
                          size_t *ret_first, size_t *ret_end);

typedef void dwarf_tree_tell(void *context, struct dwarf_place *place, const struct dwarf_scope *innermost);

/* Tells each of the places that some function of the unit holds, once. 0, or -E2BIG: the tree has more entries than
 * anybody waits for (or goes in circles). */
int dwarf_tree_walk(const struct dwarf_library *dw, Dwarf_Die *unit, struct dwarf_place *places, size_t count,
                    dwarf_tree_tell *tell, void *context);
