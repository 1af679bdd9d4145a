/* libdw (elfutils), loaded at run time, only into the process that reads DWARF (line_helper.h). Mapped into the
 * agent it would count towards the agent's memory for good, and would parse untrusted files there. */
#pragma once

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#define DWARF_LIBRARY_NAME "libdw.so.1"

/* libelf's functions come from the same handle. */
#define DWARF_LIBRARY_FUNCTIONS(each)                                                                                  \
    each(elf_version) each(dwarf_begin) each(dwarf_end) each(dwarf_setalt) each(dwarf_get_units) each(dwarf_cu_info)   \
        each(dwarf_ranges) each(dwarf_child) each(dwarf_siblingof) each(dwarf_tag) each(dwarf_attr)                    \
            each(dwarf_attr_integrate) each(dwarf_formstring) each(dwarf_formudata) each(dwarf_getsrc_die)             \
                each(dwarf_lineno) each(dwarf_linesrc) each(dwarf_getsrcfiles) each(dwarf_filesrc) each(dwfl_version)

struct dwarf_library {
#define DWARF_LIBRARY_MEMBER(name) __typeof__(&name) name;
    DWARF_LIBRARY_FUNCTIONS(DWARF_LIBRARY_MEMBER)
#undef DWARF_LIBRARY_MEMBER
};

/* -ENOPKG: not installed, or too old. The library stays loaded until the process ends. */
int dwarf_library_load(struct dwarf_library *ret);
