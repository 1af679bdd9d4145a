/* Searches the tree of functions; see dwarf_tree.h.
 *
 * One walk for all places of a unit, into the entries that contain any of them. A child claims its places first, so
 * that each place is reported with the innermost function around it. For places that are left, a second walk visits
 * all entries, each once. The file is not trusted: entries are counted, because siblings may form a cycle, and the
 * depth is limited, because the walk is recursive. */
#include "resolve/lines/dwarf_tree.h"

#include <dwarf.h>
#include <errno.h>

#define DEPTH_MAX   256
#define ENTRIES_MAX (16u << 20) /* takes a second or two */

struct walk {
    const struct dwarf_library *dw;
    struct dwarf_place *places;
    dwarf_tree_report *report;
    void *context;
    uint64_t entries;
};

static void walk_children(struct walk *w, Dwarf_Die *die, const struct dwarf_scope *scope, size_t first, size_t end,
                          unsigned depth);

void dwarf_places_between(const struct dwarf_place *places, size_t count, uint64_t begin, uint64_t end,
                          size_t *ret_first, size_t *ret_end)
{
    size_t bounds[2];
    const uint64_t wanted[2] = {begin, end};
    for (int i = 0; i < 2; i++) {
        size_t low = 0, high = count;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (places[middle].address < wanted[i])
                low = middle + 1;
            else
                high = middle;
        }
        bounds[i] = low;
    }
    *ret_first = bounds[0];
    *ret_end = bounds[1] > bounds[0] ? bounds[1] : bounds[0];
}

static bool any_place_left(const struct walk *w, size_t first, size_t end)
{
    while (first < end && w->places[first].reported)
        first++;
    return first < end;
}

/* Walks a function, an inlined one, or a block. Places that no child claims belong to the function. Places of a block
 * are left to the function around it, whose scope `scope` then is. */
static void walk_code(struct walk *w, Dwarf_Die *die, const struct dwarf_scope *scope, bool is_function, size_t first,
                      size_t end, unsigned depth)
{
    Dwarf_Addr base, begin, limit;
    for (ptrdiff_t at = 0; (at = w->dw->dwarf_ranges(die, at, &base, &begin, &limit)) > 0;) {
        size_t from, to;
        if (++w->entries > ENTRIES_MAX)
            return;
        if (begin == 0) /* discarded by the linker */
            continue;
        dwarf_places_between(w->places + first, end - first, begin, limit, &from, &to);
        if (!any_place_left(w, first + from, first + to))
            continue;
        walk_children(w, die, scope, first + from, first + to, depth);
        for (size_t i = first + from; is_function && i < first + to; i++) {
            if (w->places[i].reported)
                continue;
            w->places[i].reported = true;
            w->report(w->context, &w->places[i], scope);
        }
    }
}

enum entry_kind { ENTRY_FUNCTION, ENTRY_INLINED, ENTRY_BLOCK, ENTRY_CONTAINER, ENTRY_OTHER };

static enum entry_kind entry_kind_of(int tag)
{
    switch (tag) {
    case DW_TAG_subprogram:
        return ENTRY_FUNCTION;
    case DW_TAG_inlined_subroutine:
        return ENTRY_INLINED;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
        return ENTRY_BLOCK;
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
        return ENTRY_CONTAINER;
    default:
        return ENTRY_OTHER;
    }
}

static void walk_entry(struct walk *w, Dwarf_Die *die, const struct dwarf_scope *scope, size_t first, size_t end,
                       unsigned depth)
{
    switch (entry_kind_of(w->dw->dwarf_tag(die))) {
    case ENTRY_FUNCTION:
        walk_code(w, die, &(struct dwarf_scope){.die = die}, true, first, end, depth);
        return;
    case ENTRY_INLINED:
        walk_code(w, die, &(struct dwarf_scope){.die = die, .outer = scope}, scope, first, end, depth);
        return;
    case ENTRY_BLOCK:
        walk_code(w, die, scope, false, first, end, depth);
        return;
    case ENTRY_CONTAINER:
        walk_children(w, die, scope, first, end, depth);
        return;
    case ENTRY_OTHER:
        return;
    }
}

static void walk_children(struct walk *w, Dwarf_Die *die, const struct dwarf_scope *scope, size_t first, size_t end,
                          unsigned depth)
{
    Dwarf_Die child;
    if (depth == DEPTH_MAX || w->dw->dwarf_child(die, &child) != 0)
        return;
    do {
        if (++w->entries > ENTRIES_MAX)
            return;
        walk_entry(w, &child, scope, first, end, depth + 1);
    } while (w->dw->dwarf_siblingof(&child, &child) == 0);
}

/* Walks every function below `die`: one may be nested in another one whose code lies elsewhere. */
static void walk_functions(struct walk *w, Dwarf_Die *die, size_t count, unsigned depth)
{
    Dwarf_Die child;
    if (depth == DEPTH_MAX || w->dw->dwarf_child(die, &child) != 0)
        return;
    do {
        const enum entry_kind kind = entry_kind_of(w->dw->dwarf_tag(&child));
        if (++w->entries > ENTRIES_MAX)
            return;
        if (kind == ENTRY_FUNCTION)
            walk_entry(w, &child, NULL, 0, count, depth + 1);
        if (kind != ENTRY_OTHER)
            walk_functions(w, &child, count, depth + 1);
    } while (w->dw->dwarf_siblingof(&child, &child) == 0);
}

int dwarf_tree_walk(const struct dwarf_library *dw, Dwarf_Die *unit, struct dwarf_place *places, size_t count,
                    dwarf_tree_report *report, void *context)
{
    struct walk w = {.dw = dw, .places = places, .report = report, .context = context};
    walk_children(&w, unit, NULL, 0, count, 0);
    if (any_place_left(&w, 0, count))
        walk_functions(&w, unit, count, 0);
    return w.entries > ENTRIES_MAX ? -E2BIG : 0;
}
