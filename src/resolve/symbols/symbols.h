/* Names of native code: from a place in an object to a function's name, by .symtab, .dynsym, .gnu_debugdata,
 * or a separate debug file found by build id or debug link; C++ and Rust demangled. A pure function of
 * (object, offset): the caches behind it are bounded and only save work. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/object/objects.h"

#include <stddef.h>
#include <stdint.h>

struct symbols;

struct symbols_options {
    size_t cache_bytes;     /* bound of all caches together */
    size_t entries_max;     /* of each of them; 0: what the bytes allow */
    const char *debug_root; /* "/usr/lib/debug"; NULL: that */
};

int symbols_new(const struct symbols_options *options, struct symbols **ret);
void symbols_free(struct symbols *s);
DEFINE_FREEP(symbols)

struct symbol {
    const char *function;    /* demangled; "" when there is no name */
    const char *system_name; /* as it stands in the file; "" where that is `function` */
    uint64_t address;        /* virtual address of the place asked for, as in the ELF file */
};

/* Always fills `ret`; strings are borrowed until the next call. Returns 0, -ENOENT when no name covers the
 * place, or -ETIMEDOUT when its file does not answer at present. */
int symbols_find(struct symbols *s, struct object *object, uint64_t file_offset, struct symbol *ret);

/* Gives back open files and indexes of names, which cost work to have again; names that were found stay. */
void symbols_trim(struct symbols *s);
void symbols_metrics(const struct symbols *s, struct metric_set *set);
