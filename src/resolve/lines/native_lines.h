/* Source lines of native code for the answers of an agent: looked up on a thread, in confined processes
 * (line_spawner.h), and remembered. An address without an answer is queued, and its lines are known soon after; the
 * caller never waits. Lookups have a share of 1 % of one CPU, and a caller asks only for addresses that it shows.
 * Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/metric.h"
#include "resolve/object/object.h"

#include <stddef.h>
#include <stdint.h>

#define NATIVE_LINES_FUNCTIONS_MAX 24

struct native_lines;

/* Forks the spawner: called while the agent is small and has no other threads. The caller frees `*ret`. -ENOPKG: libdw
 * is not installed; -ENOMEM, or another -errno. */
int native_lines_new(struct native_lines **ret);
void native_lines_free(struct native_lines *n);
DEFINE_FREEP(native_lines)

/* The functions that contain an address, innermost first: the last one is the function in the symbol table, the others
 * were inlined there. */
struct native_place {
    size_t count;
    struct native_function {
        const char *function; /* demangled; "": unknown */
        const char *file;     /* a path as the compiler recorded it; "": unknown */
        uint32_t line;        /* 0: unknown */
    } functions[NATIVE_LINES_FUNCTIONS_MAX];
};

/* `address` as in the ELF file (struct frame). 0: `ret` is set; its strings are borrowed until the next call. -EAGAIN:
 * the lines are looked up, ask again later. -ENOENT: there is no line information, or it cannot be read. */
int native_lines_find(struct native_lines *n, struct object *object, uint64_t address, struct native_place *ret);

struct native_lines_stats {
    uint64_t lookups;   /* files that were read; one file may be read several times */
    uint64_t addresses; /* looked up */
    uint64_t found;     /* of them, with lines */
    uint64_t cpu_ns;    /* CPU time of the processes */
};
void native_lines_stats(struct native_lines *n, struct native_lines_stats *ret);
void native_lines_metrics(struct native_lines *n, struct metric_set *set);
