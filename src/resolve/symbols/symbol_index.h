/* Finds the functions of one object by address. An index keeps, for each range of some bytes of code, the numbers of
 * the symbols in it, which are read from the file again: about 3 bytes for each symbol. It is built by two linear
 * passes over the symbol tables, without sorting them. The name of an address does not depend on how much of the object
 * an index covers, nor on whether there is an index (symbol_index_scan needs none). */
#pragma once

#include "base/cleanup.h"
#include "resolve/symbols/symbol_files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name of a function: its offset and its table. */
struct symbol_name {
    uint32_t name;
    uint8_t source;
};

#define SYMBOL_INDEX_ENTRY_BYTES 4 /* of each function, about, in a large object */

struct symbol_index;

/* Covers the addresses [low, high), at most 4 GiB of them. The caller frees `*ret`. -ENOSPC: more than `max_bytes` or
 * 4 GiB; -ENOMEM; errors of symbol_files_scan. */
int symbol_index_build(const struct symbol_files *files, uint64_t low, uint64_t high, size_t max_bytes,
                       struct symbol_index **ret);
void symbol_index_free(struct symbol_index *x);
DEFINE_FREEP(symbol_index)

bool symbol_index_covers(const struct symbol_index *x, uint64_t address);
/* `address` must be covered, and `files` must be of the same object as those that the index was built from. -ENOENT: no
 * function there, or the file cannot be read (symbol_files_error). */
int symbol_index_find(const struct symbol_index *x, const struct symbol_files *files, uint64_t address,
                      struct symbol_name *ret);
size_t symbol_index_bytes(const struct symbol_index *x);

/* The same result from one pass over the tables, without an index. */
int symbol_index_scan(const struct symbol_files *files, uint64_t address, struct symbol_name *ret);

/* Splits [low, high) into ranges of at most about `max_symbols` functions, for an object too large for one index:
 * `*ret_bounds` (freed by the caller) has `*ret_count` + 1 ascending addresses. */
int symbol_index_divide(const struct symbol_files *files, uint64_t low, uint64_t high, size_t max_symbols,
                        uint64_t **ret_bounds, size_t *ret_count);
