/* Searches the tree of functions; see dwarf_tree.h.
 *
 * One walk for all places of a unit, into the entries that contain any of them. A child claims its places first, so
 * that each place is reported with the innermost function around it. The file is not trusted: entries are counted,
 * because siblings may form a cycle, and the depth is limited, because the walk is recursive. */
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
    bool everywhere; /* second pass, also into entries that contain none of the places: a function may be nested in
                        another one whose code lies elsewhere */
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
        if (from == to)
            continue;
        walk_children(w, die, scope, first + from, first + to, depth);
        for (size_t i = first + from; is_function && i < first + to; i++) {
            if (w->places[i].reported)
                continue;
            w->places[i].reported = true;
            w->report(w->context, &w->places[i], scope);
        }
    }
    if (w->everywhere && !(is_function && scope->outer))
        walk_children(w, die, NULL, first, end, depth);
}

static void walk_entry(struct walk *w, Dwarf_Die *die, const struct dwarf_scope *scope, size_t first, size_t end,
                       unsigned depth)
{
    switch (w->dw->dwarf_tag(die)) {
    case DW_TAG_subprogram:
        walk_code(w, die, &(struct dwarf_scope){.die = die}, true, first, end, depth);
        return;
    case DW_TAG_inlined_subroutine:
        walk_code(w, die, &(struct dwarf_scope){.die = die, .outer = scope}, scope, first, end, depth);
        return;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
        walk_code(w, die, scope, false, first, end, depth);
        return;
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
        walk_children(w, die, scope, first, end, depth);
        return;
    default:
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

int dwarf_tree_walk(const struct dwarf_library *dw, Dwarf_Die *unit, struct dwarf_place *places, size_t count,
                    dwarf_tree_report *report, void *context)
{
    struct walk w = {.dw = dw, .places = places, .report = report, .context = context};
    walk_children(&w, unit, NULL, 0, count, 0);
    for (size_t i = 0; i < count && !w.everywhere; i++)
        w.everywhere = !places[i].reported;
    if (w.everywhere)
        walk_children(&w, unit, NULL, 0, count, 0);
    return w.entries > ENTRIES_MAX ? -E2BIG : 0;
}
