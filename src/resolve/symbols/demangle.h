/* Demangles C++ (Itanium ABI) and Rust (legacy and v0) symbols; other names are copied. Hostile names cost bounded
 * time, stack and memory. */
#pragma once

#include <stddef.h>

#define DEMANGLED_MAX 2048 /* with the NUL; longer results are cut and end in "..." */

/* Writes the demangled `symbol` to `out`, or the symbol itself when it is not mangled; returns `out`. Parameters and
 * return types are omitted: "std::vector<int>::push_back". */
const char *demangle(const char *symbol, char out[DEMANGLED_MAX]);
