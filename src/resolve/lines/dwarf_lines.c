/* Converts addresses to source lines; see dwarf_lines.h.
 *
 * Iterates over all units once and searches those whose ranges contain any of the addresses. Does not use
 * .debug_aranges, which clang does not write. Where functions were inlined, the line table has the line of the
 * innermost; each enclosing function is at the line of the call. */
#include "resolve/lines/dwarf_lines.h"

#include "resolve/lines/dwarf_tree.h"
#include "resolve/symbols/demangle.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#define RANGES_MAX (64u << 20)

struct line_search {
    const struct dwarf_library *dw;
    const struct dwarf_request *request;
    dwarf_lines_send *send;
    void *context;
    struct dwarf_place *places; /* all */
    struct dwarf_place *inside; /* places of the current unit */
    size_t inside_count;
    Dwarf_Die *unit; /* has the line table */
    Dwarf_Die *tree; /* has the functions: the unit, or its split unit in a .dwo file */
    struct buf message;
    bool ended, damaged, misses_split;
};

static void line_search_clear(struct line_search *t)
{
    free(t->places);
    free(t->inside);
    buf_clear(&t->message);
}

static const char *attribute_string(const struct line_search *t, Dwarf_Die *die, unsigned attribute)
{
    Dwarf_Attribute found;
    const char *text = t->dw->dwarf_attr_integrate(die, attribute, &found) ? t->dw->dwarf_formstring(&found) : NULL;
    return text && text[0] ? text : NULL;
}

static const char *function_name(const struct line_search *t, Dwarf_Die *die)
{
    static const unsigned attributes[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name};
    const char *name = NULL;
    for (size_t i = 0; i < array_size(attributes) && !name; i++)
        name = attribute_string(t, die, attributes[i]);
    return name ? name : "";
}

static uint32_t attribute_number(const struct line_search *t, Dwarf_Die *die, unsigned attribute)
{
    Dwarf_Attribute found;
    Dwarf_Word value;
    if (!t->dw->dwarf_attr(die, attribute, &found) || t->dw->dwarf_formudata(&found, &value) != 0 || value > UINT32_MAX)
        return 0;
    return (uint32_t)value;
}

/* Demangles here, in the confined process: a name in DWARF is untrusted too (resolve/symbols/demangler.h). */
static void add_line(struct line_search *t, const char *path, uint32_t line, const char *name)
{
    char demangled[DEMANGLED_MAX];
    demangle(name, demangled);
    line_answer_add(&t->message, path ? path : "", line, demangled, strcmp(demangled, name) == 0 ? "" : name);
}

/* Adds the line of the call of an inlined function. */
static void add_call(struct line_search *t, Dwarf_Die *inlined, const char *name)
{
    Dwarf_Files *files;
    size_t count;
    const uint32_t file = attribute_number(t, inlined, DW_AT_call_file);
    const char *path = NULL;
    if (t->dw->dwarf_getsrcfiles(t->tree, &files, &count) == 0 && file < count)
        path = t->dw->dwarf_filesrc(files, file, NULL, NULL);
    add_line(t, path, path ? attribute_number(t, inlined, DW_AT_call_line) : 0, name);
}

static void add_line_of(struct line_search *t, uint64_t address, const char *name)
{
    Dwarf_Line *line = t->dw->dwarf_getsrc_die(t->unit, address);
    int number = 0;
    const char *path = line ? t->dw->dwarf_linesrc(line, NULL, NULL) : NULL;
    if (!path || t->dw->dwarf_lineno(line, &number) != 0 || number < 0)
        number = 0;
    add_line(t, path, (uint32_t)number, name);
}

static void report_place(void *context, struct dwarf_place *place, const struct dwarf_scope *innermost)
{
    struct line_search *t = context;
    Dwarf_Die *called = NULL; /* the inner function, called at this line */
    size_t count = 0;
    if (t->ended)
        return;
    line_answer_begin(&t->message, place->number);
    for (const struct dwarf_scope *scope = innermost; scope; called = scope->die, scope = scope->outer) {
        const bool wanted = !scope->outer || (t->request->inlines && count + 1 < LINE_ANSWER_LINES_MAX);
        if (!wanted)
            continue;
        const char *name = function_name(t, scope->die);
        count++;
        if (called)
            add_call(t, called, name);
        else
            add_line_of(t, place->address, name);
    }
    if (!innermost) { /* code without a function entry, such as assembly */
        count = 1;
        add_line_of(t, place->address, "");
    }
    t->ended = !line_answer_finish(&t->message, count) || !t->send(t->context, t->message.data, t->message.size);
}

static int compare_places(const void *left, const void *right)
{
    const struct dwarf_place *a = left, *b = right;
    return a->address != b->address ? (a->address > b->address) - (a->address < b->address)
                                    : (a->number > b->number) - (a->number < b->number);
}

/* Finds the addresses inside the unit's ranges, each once. */
static void find_inside(struct line_search *t)
{
    Dwarf_Addr base, begin, end;
    ptrdiff_t at = 0;
    t->inside_count = 0;
    for (size_t n = 0; n < RANGES_MAX && (at = t->dw->dwarf_ranges(t->unit, at, &base, &begin, &end)) > 0; n++) {
        size_t from, to;
        if (begin == 0) /* discarded by the linker */
            continue;
        dwarf_places_between(t->places, t->request->count, begin, end, &from, &to);
        for (; from < to; from++) {
            if (t->places[from].reported)
                continue;
            t->places[from].reported = true;
            t->inside[t->inside_count++] = (struct dwarf_place){t->places[from].address, t->places[from].number, false};
        }
    }
    t->damaged |= at < 0;
    qsort(t->inside, t->inside_count, sizeof(*t->inside), compare_places);
}

static void search_unit(struct line_search *t, Dwarf_CU *cu, Dwarf_Die *unit)
{
    Dwarf_Die split;
    uint8_t type = 0;
    t->unit = t->tree = unit;
    find_inside(t);
    if (t->inside_count == 0)
        return;
    memset(&split, 0, sizeof(split));
    if (t->dw->dwarf_cu_info(cu, NULL, &type, NULL, &split, NULL, NULL, NULL) == 0 && type == DW_UT_skeleton) {
        t->misses_split |= !split.addr; /* its .dwo file is missing, or does not belong to it */
        t->tree = split.addr ? &split : unit;
    }
    t->damaged |= dwarf_tree_walk(t->dw, t->tree, t->inside, t->inside_count, report_place, t) < 0;
    for (size_t i = 0; i < t->inside_count; i++)
        if (!t->inside[i].reported)
            report_place(t, &t->inside[i], NULL);
}

static enum line_answer_status search_all_units(struct line_search *t, Dwarf *dwarf)
{
    const struct dwarf_request *q = t->request;
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit;
    uint8_t type;
    size_t units = 0;
    int r;
    t->places = calloc(q->count + 1, sizeof(*t->places));
    t->inside = calloc(q->count + 1, sizeof(*t->inside));
    if (!t->places || !t->inside)
        return LINE_STATUS_DAMAGED;
    for (size_t i = 0; i < q->count; i++)
        t->places[i] = (struct dwarf_place){q->addresses[i], (uint32_t)i, false};
    while (!t->ended && (r = t->dw->dwarf_get_units(dwarf, cu, &cu, NULL, &type, &unit, NULL)) == 0) {
        units++;
        if (type == DW_UT_compile || type == DW_UT_skeleton)
            search_unit(t, cu, &unit);
    }
    t->damaged |= t->ended || r < 0;
    if (t->misses_split && !t->damaged)
        return LINE_STATUS_NO_SPLIT;
    return t->damaged ? LINE_STATUS_DAMAGED : units ? LINE_STATUS_WHOLE : LINE_STATUS_NO_DWARF;
}

enum line_answer_status dwarf_lines_find(const struct dwarf_library *dw, const struct dwarf_request *request,
                                         dwarf_lines_send *send, void *context)
{
    _cleanup_(line_search_clear) struct line_search t = {
        .dw = dw, .request = request, .send = send, .context = context};
    dw->elf_version(EV_CURRENT);
    Dwarf *dwarf = dw->dwarf_begin(request->fd, DWARF_C_READ);
    if (!dwarf)
        return LINE_STATUS_DAMAGED; /* the caller has checked that DWARF sections exist */
    Dwarf *alt = request->alt_fd >= 0 ? dw->dwarf_begin(request->alt_fd, DWARF_C_READ) : NULL;
    if (alt)
        dw->dwarf_setalt(dwarf, alt);
    const enum line_answer_status status = search_all_units(&t, dwarf);
    dw->dwarf_end(dwarf);
    if (alt)
        dw->dwarf_end(alt);
    return status;
}
