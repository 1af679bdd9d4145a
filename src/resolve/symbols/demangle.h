/* Names as their authors wrote them: C++ (Itanium ABI) and Rust (legacy and v0) symbols made readable; others
 * are handed through. Hostile names cost bounded time, stack and room. */
#pragma once

#include <stddef.h>

#define DEMANGLED_MAX 2048 /* with the NUL; longer results are cut and end in "..." */

/* Writes the readable form of `symbol`, or `symbol` itself when it is none of ours; returns `out`. Parameters
 * and return types are left out, so that "std::vector<int>::push_back" it is. */
const char *demangle(const char *symbol, char out[DEMANGLED_MAX]);
