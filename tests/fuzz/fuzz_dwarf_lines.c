/* The code around libdw, with a fake libdw that returns arbitrary results: endless units and entries, siblings of
 * themselves, ranges that overlap, are reversed or cover everything, strings of any length or none. Every requested
 * place is reported at most once, in a readable message. Damaged files in libdw itself are contained by the sandbox
 * (resolve/lines/line_helper.h). */
#include "resolve/lines/dwarf_lines.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_MAX 64

static const uint8_t *at, *end;

/* Returns 0 for ever at the end of the input: the results that end every loop. */
static uint8_t next(void)
{
    return at < end ? *at++ : 0;
}

static bool yes(void)
{
    return next() & 3;
}

static const char *text(void)
{
    static const char longest[3 * LINE_ANSWER_TEXT_MAX] = {[0 ... 3 * LINE_ANSWER_TEXT_MAX - 2] = 'x'};
    static const char *const texts[] = {NULL, "", "main", "/src/a.c", "_ZN4shop4TillIlE4ringEl", "\x1b[0m\n\t\xff", longest, longest + 2 * LINE_ANSWER_TEXT_MAX};
    return texts[next() % array_size(texts)];
}

static uint64_t number(void)
{
    static const uint64_t special[] = {0, 1, UINT32_MAX, (uint64_t)UINT32_MAX + 1, INT64_MAX, UINT64_MAX};
    const uint8_t byte = next();
    return byte < array_size(special) ? special[byte] : byte;
}

static void *thing(void)
{
    static char one;
    return yes() ? &one : NULL;
}

static void make(Dwarf_Die *ret)
{
    *ret = (Dwarf_Die){.addr = thing()};
}

static unsigned fake_elf_version(unsigned version) { return version; }
static Dwarf *fake_begin(int fd, Dwarf_Cmd command) { (void)fd, (void)command; return thing(); }
static int fake_end(Dwarf *dwarf) { (void)dwarf; return 0; }
static void fake_setalt(Dwarf *dwarf, Dwarf *alt) { (void)dwarf, (void)alt; }

static int fake_get_units(Dwarf *dwarf, Dwarf_CU *cu, Dwarf_CU **ret_cu, Dwarf_Half *version, uint8_t *ret_type, Dwarf_Die *ret_die, Dwarf_Die *ret_sub)
{
    static const uint8_t types[] = {DW_UT_compile, DW_UT_skeleton, DW_UT_compile, DW_UT_type};
    (void)dwarf, (void)cu, (void)version, (void)ret_sub;
    if (!yes())
        return next() & 1 ? -1 : 1;
    *ret_cu = NULL;
    *ret_type = types[next() % array_size(types)];
    make(ret_die);
    return 0;
}

static int fake_cu_info(Dwarf_CU *cu, Dwarf_Half *version, uint8_t *ret_type, Dwarf_Die *die, Dwarf_Die *ret_sub, uint64_t *id, uint8_t *address, uint8_t *offset)
{
    (void)cu, (void)version, (void)die, (void)id, (void)address, (void)offset;
    *ret_type = yes() ? DW_UT_skeleton : DW_UT_compile;
    make(ret_sub);
    return yes() ? 0 : -1;
}

static ptrdiff_t fake_ranges(Dwarf_Die *die, ptrdiff_t offset, Dwarf_Addr *base, Dwarf_Addr *ret_start, Dwarf_Addr *ret_end)
{
    (void)die, (void)base;
    if (!yes())
        return next() & 1 ? -1 : 0;
    *ret_start = number();
    *ret_end = next() & 1 ? UINT64_MAX : number();
    return offset < 1000000 ? offset + 1 : 1;
}

static int fake_child(Dwarf_Die *die, Dwarf_Die *ret) { (void)die; make(ret); return yes() ? 0 : 1; }
static int fake_siblingof(Dwarf_Die *die, Dwarf_Die *ret) { (void)die; make(ret); return yes() ? 0 : 1; }

static int fake_tag(Dwarf_Die *die)
{
    static const int tags[] = {DW_TAG_subprogram, DW_TAG_inlined_subroutine, DW_TAG_lexical_block, DW_TAG_namespace, DW_TAG_variable, DW_TAG_inlined_subroutine, -1};
    (void)die;
    return tags[next() % array_size(tags)];
}

static Dwarf_Attribute *fake_attr(Dwarf_Die *die, unsigned name, Dwarf_Attribute *ret) { (void)die, (void)name; return yes() ? ret : NULL; }
static const char *fake_formstring(Dwarf_Attribute *attribute) { (void)attribute; return text(); }
static int fake_formudata(Dwarf_Attribute *attribute, Dwarf_Word *ret) { (void)attribute; *ret = number(); return yes() ? 0 : -1; }
static Dwarf_Line *fake_getsrc_die(Dwarf_Die *die, Dwarf_Addr address) { (void)die, (void)address; return thing(); }
static int fake_lineno(Dwarf_Line *line, int *ret) { (void)line; *ret = (int)number(); return yes() ? 0 : -1; }
static const char *fake_linesrc(Dwarf_Line *line, Dwarf_Word *mtime, Dwarf_Word *length) { (void)line, (void)mtime, (void)length; return text(); }
static int fake_getsrcfiles(Dwarf_Die *die, Dwarf_Files **ret, size_t *ret_count) { (void)die; *ret = thing(); *ret_count = number(); return yes() ? 0 : -1; }
static const char *fake_filesrc(Dwarf_Files *files, size_t i, Dwarf_Word *mtime, Dwarf_Word *length) { (void)files, (void)i, (void)mtime, (void)length; return text(); }

static const struct dwarf_library fake = {
    .elf_version = fake_elf_version, .dwarf_begin = fake_begin, .dwarf_end = fake_end, .dwarf_setalt = fake_setalt, .dwarf_get_units = fake_get_units,
    .dwarf_cu_info = fake_cu_info, .dwarf_ranges = fake_ranges, .dwarf_child = fake_child, .dwarf_siblingof = fake_siblingof, .dwarf_tag = fake_tag,
    .dwarf_attr = fake_attr, .dwarf_attr_integrate = fake_attr, .dwarf_formstring = fake_formstring, .dwarf_formudata = fake_formudata,
    .dwarf_getsrc_die = fake_getsrc_die, .dwarf_lineno = fake_lineno, .dwarf_linesrc = fake_linesrc, .dwarf_getsrcfiles = fake_getsrcfiles,
    .dwarf_filesrc = fake_filesrc,
};

struct check {
    size_t count;
    bool reported[PLACES_MAX];
    uint8_t messages_left;
};

static bool look(void *context, const void *data, size_t size)
{
    struct check *c = context;
    struct line_answer *answer = malloc(sizeof(*answer));
    if (!answer || line_answer_read(data, size, answer) < 0 || answer->kind != LINE_ANSWER_PLACE || answer->number >= c->count || c->reported[answer->number])
        abort();
    c->reported[answer->number] = true;
    free(answer);
    return c->messages_left == 0 || --c->messages_left > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t addresses[PLACES_MAX], address = 0;
    struct check c = {0};
    at = data;
    end = data + size;
    c.count = next() % (PLACES_MAX + 1);
    for (size_t i = 0; i < c.count; i++)
        addresses[i] = address += next() % 8; /* some of them twice */
    const struct dwarf_request question = {.fd = -1, .alt_fd = next() & 1 ? 0 : -1, .addresses = addresses, .count = c.count, .inlines = yes()};
    c.messages_left = next(); /* 0: the receiver reads to the end */
    if (dwarf_lines_find(&fake, &question, look, &c) >= LINE_STATUS_COUNT)
        abort();
    return 0;
}
