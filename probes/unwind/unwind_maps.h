/* How the kernel half finds the object behind an address: a process's executable mappings, in chunks. Written
 * by src/sources/tables/unwind_tables.c, searched by unwind.bpf.h.
 *
 * A process has one entry, which names a generation; the chunks of a generation are in place before the entry
 * names it and stay a while after it does not, so that a walk sees the old mappings or the new ones, whole.
 */
#pragma once

#include "probes/go_stacks.h"
#include "probes/hotspot.h"
#include "probes/python.h"
#include "probes/v8.h"

/* Sizes that fill the kernel's allocation classes (1024 and 512 bytes) with the table's own overhead. */
#define UNWIND_CHUNK_MAPPINGS 38
#define UNWIND_PROCESS_CHUNKS 32 /* 1216 executable mappings; a process with more is refused and counted */
#define UNWIND_MAX_OBJECTS    8192
#define UNWIND_PAGE_SHIFT     12

/* Instead of an object's number. */
#define UNWIND_MAPPING_NO_ROWS_YET 0xffffffffU
#define UNWIND_MAPPING_NO_CODE     0xfffffffeU

/* How the kernel half reads a process's interpreters, and Go's runtime: a member of each, all zeros where there is none
 * of that kind. */
struct interpreter_layouts {
    struct python_layout python;
    struct go_stack_layout go;
    __u64 runtime; /* enum interpreter_kind: which of the two the process has; 0: neither. One that has both is read as
                      a HotSpot */
    union {
        struct v8_layout v8;
        struct hotspot_layout hotspot;
    };
};

struct unwind_process {
    __u32 generation;
    __u32 chunks;
    __u64 put_ns;                        /* CLOCK_MONOTONIC: while a program starts, more is mapped than we know of */
    __u64 starts[UNWIND_PROCESS_CHUNKS]; /* address of each chunk's first mapping */
    struct interpreter_layouts interpreters;
};

_Static_assert(sizeof(struct unwind_process) <= 448, "with what the kernel adds it is in the class of 512");

struct unwind_chunk_key {
    __u32 pid;
    __u32 generation;
    __u32 chunk;
};

struct unwind_chunk_mapping { /* its start is in the chunk's starts[] */
    __u32 pages;              /* of 4 KiB */
    __u32 file_page;          /* file offset / 4 KiB */
    __u32 object;
    __u32 serial; /* of what was put under that number: never used again, as numbers are */
};

struct unwind_chunk {
    __u32 count;
    __u32 reserved;
    __u64 starts[UNWIND_CHUNK_MAPPINGS];
    struct unwind_chunk_mapping mappings[UNWIND_CHUNK_MAPPINGS];
};
_Static_assert(sizeof(struct unwind_chunk) == 8 + UNWIND_CHUNK_MAPPINGS * 24, "table format");
