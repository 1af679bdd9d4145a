/* Demangles C++ (Itanium ABI) and Rust (legacy and v0) symbols; other names are copied. A hostile name costs bounded
 * memory, but its time and stack are not bounded: names of foreign files go through demangler.h. */
#pragma once

#include <stdbool.h>

#define DEMANGLED_MAX       2048 /* with the NUL; longer results are cut and end in "..." */
#define DEMANGLE_SYMBOL_MAX 4096 /* longer symbols, with the NUL, are copied */

/* Whether `demangle` does more than copy this symbol. */
bool demangle_is_mangled(const char *symbol);
/* Copies a symbol as it is, cut like a result; returns `out`. */
const char *demangle_copy(const char *symbol, char out[DEMANGLED_MAX]);

/* Writes the demangled `symbol` to `out`, or the symbol itself when it is not mangled; returns `out`. Parameters and
 * return types are omitted: "std::vector<int>::push_back". */
const char *demangle(const char *symbol, char out[DEMANGLED_MAX]);
