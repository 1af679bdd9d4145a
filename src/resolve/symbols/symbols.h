/* Names of native code: from a file offset in an object to a function name, by .symtab, .dynsym, .gnu_debugdata, or
 * a separate debug file found by build ID or debug link; C++ and Rust demangled. The result depends only on (object,
 * offset); the bounded caches only save work. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/object/object.h"
#include "resolve/symbols/demangle.h"

#include <stddef.h>
#include <stdint.h>

struct symbols;

struct symbols_options {
    size_t cache_bytes;     /* limit of all caches together */
    size_t entries_max;     /* limit of entries in each cache; 0: derived from cache_bytes */
    const char *debug_root; /* NULL: "/usr/lib/debug" */
};

/* Creates empty caches; `options` and its string are copied. The caller frees `*ret`. -ENOMEM. */
int symbols_new(const struct symbols_options *options, struct symbols **ret);
void symbols_free(struct symbols *s);
DEFINE_FREEP(symbols)

struct symbol {
    const char *function;    /* demangled; "" when there is no name */
    const char *system_name; /* as stored in the file; "" when equal to `function` */
    uint64_t address;        /* virtual address of the offset, as in the ELF file */
};

/* Always fills `ret`; strings are borrowed until the next call. Returns 0, -ENOENT when no name covers the offset,
 * or -ETIMEDOUT when its file cannot be read at present. */
int symbols_find(struct symbols *s, struct object *object, uint64_t file_offset, struct symbol *ret);

/* Demangles a name that belongs to no file; see demangler_demangle. */
int symbols_demangle(struct symbols *s, const char *symbol, char out[DEMANGLED_MAX]);

/* Releases the open files and indexes that the last SYMBOLS_KEPT_LOOKUPS lookups did not use; cached names stay. The
 * agent calls this every second while it is short of memory: rebuilding indexes in use would cost CPU time each second.
 */
#define SYMBOLS_KEPT_LOOKUPS 4096
void symbols_trim(struct symbols *s);
/* Closes the object's files; a lookup opens them again. */
void symbols_close(struct symbols *s, uint64_t object_id);
void symbols_metrics(const struct symbols *s, struct metric_set *set);
