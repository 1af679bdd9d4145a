/* The sources of one object's names: its own symbol tables, the tables of its separate debug file or .gnu_debugdata,
 * its PLT and Go's function table. Tables are streamed from the files each time and not cached here; caching is the
 * task of symbol_index.h. */
#pragma once

#include "base/cleanup.h"
#include "resolve/elf/elf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct name_process;
struct symbol_files;

struct symbol_files_options {
    const char *path;     /* of the object, as first seen: where to look for a debug file */
    const char *build_id; /* hexadecimal */
    const char *debug_root;
    int (*open_in_own_root)(const void *context, const char *path); /* see debug_files.h */
    int (*open_in_process_root)(const void *context, const char *path);
    const void *context;
    struct name_process *unpacker; /* borrowed during the call */
};

/* Always takes `fd`. -ENOEXEC: not an ELF file; -ETIMEDOUT: its file system does not respond at present; -EAGAIN: its
 * names cannot be searched or unpacked at present. */
int symbol_files_open(int fd, const struct symbol_files_options *options, struct symbol_files **ret);
void symbol_files_free(struct symbol_files *f);
DEFINE_FREEP(symbol_files)

/* The object's own PT_LOAD segments. */
size_t symbol_files_segments(const struct symbol_files *f, const struct elf_segment **ret);

/* The virtual address of a file offset; executable segments are preferred. -ENOENT: no segment contains it. */
int symbol_files_vaddr(const struct symbol_files *f, uint64_t offset, uint64_t *ret);

#define SYMBOL_NAME_MAX    (1u << 29) /* offsets of names are below this */
#define SYMBOL_SOURCES_MAX 8          /* indexes of sources are below this */
#define SYMBOL_NUMBER_MAX  (1u << 26) /* functions of one source; in a table of symbols, 1.5 GiB of file */

/* One function. Without a size it extends to the next symbol, at most to its section's end. */
struct symbol_entry {
    uint64_t start, end; /* equal: no size */
    uint64_t section_end;
    uint32_t name;   /* for symbol_files_name */
    uint32_t number; /* for symbol_files_entry; below symbol_files_count */
    uint8_t source;
    uint8_t rank; /* of several symbols at one address the lowest is preferred */
};

/* Calls `take` for every function of every table, in a deterministic order; a value other than 0 ends the scan and
 * is returned. Malformed entries are skipped. */
typedef int symbol_take(const struct symbol_entry *entry, void *context);
int symbol_files_scan(const struct symbol_files *f, symbol_take *take, void *context);

/* Reads again the function that a scan reported as `number`. -ENOENT: no function has this number, or the file cannot
 * be read. */
int symbol_files_entry(const struct symbol_files *f, uint32_t number, struct symbol_entry *ret);

/* At least the number of functions that a scan reports: the sources' functions are numbered one after another. */
uint32_t symbol_files_count(const struct symbol_files *f);

/* The name as stored in the file (mangled), without its version, cut to `size`; PLT stubs as "puts@plt". */
int symbol_files_name(const struct symbol_files *f, uint8_t source, uint32_t name, char *ret, size_t size);

/* For two entries with the same start: whether `a` is the better name. */
bool symbol_files_prefer(const struct symbol_files *f, const struct symbol_entry *a, const struct symbol_entry *b);

/* Whether a function begins in (`start`, `address`], as the object's unwind information shows (.eh_frame_hdr). False if
 * it has none. */
bool symbol_files_function_between(const struct symbol_files *f, uint64_t start, uint64_t address);

/* 0, or -ETIMEDOUT once one of the files did not respond: results since then may be incomplete. */
int symbol_files_error(const struct symbol_files *f);

size_t symbol_files_bytes(const struct symbol_files *f); /* memory held */
