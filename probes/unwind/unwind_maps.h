/* How the BPF programs find the object that contains an address: a process's executable mappings, in chunks. Written
 * by src/sources/tables/unwind_tables.c, searched by unwind.bpf.h.
 *
 * A process has one entry, which refers to a generation. The chunks of a generation exist before the entry refers to
 * it and remain for a while afterwards, so that a walk sees either the old or the new mappings. */
#pragma once

#include "probes/go_stacks.h"
#include "probes/hotspot.h"
#include "probes/interpreter/interpreter.h"
#include "probes/python.h"
#include "probes/v8.h"

/* Sizes that fill the kernel's allocation classes (1024 and 512 bytes), including the map's overhead. */
#define UNWIND_CHUNK_MAPPINGS 38
#define UNWIND_PROCESS_CHUNKS 32 /* 1216 executable mappings; a process with more is rejected and counted */
#define UNWIND_MAX_OBJECTS    8192
#define UNWIND_PAGE_SHIFT     12

/* In place of an object's number. */
#define UNWIND_MAPPING_NO_TABLE_YET 0xffffffffU
#define UNWIND_MAPPING_NO_CODE      0xfffffffeU

/* How the BPF programs read a process's interpreters and Go's runtime: all zeros for a kind that the process does not
 * have. */
struct interpreter_layouts {
    struct python_layout python;
    struct go_stack_layout go;
    __u64 runtime; /* enum interpreter_kind: INTERPRETER_V8 or INTERPRETER_HOTSPOT; 0: neither. A process with both is
                      read as HotSpot */
    union {
        struct v8_layout v8;
        struct hotspot_layout hotspot;
    };
};

struct unwind_process {
    __u32 generation;
    __u32 chunks;
    __u64 put_ns; /* CLOCK_MONOTONIC: while a program starts, it has more mappings than are known */
    __u64 starts[UNWIND_PROCESS_CHUNKS]; /* address of each chunk's first mapping */
    struct interpreter_layouts interpreters;
};

_Static_assert(sizeof(struct unwind_process) <= 448, "with the kernel's header it is in the size class of 512");

struct unwind_chunk_key {
    __u32 pid;
    __u32 generation;
    __u32 chunk;
};

struct unwind_chunk_mapping { /* its start is in the chunk's starts[] */
    __u32 pages;              /* of 4 KiB */
    __u32 file_page;          /* file offset / 4 KiB */
    __u32 object;
    __u32 serial; /* of the object put under this number: unlike numbers, never reused */
};

struct unwind_chunk {
    __u32 count;
    __u32 reserved;
    __u64 starts[UNWIND_CHUNK_MAPPINGS];
    struct unwind_chunk_mapping mappings[UNWIND_CHUNK_MAPPINGS];
};
_Static_assert(sizeof(struct unwind_chunk) == 8 + UNWIND_CHUNK_MAPPINGS * 24, "table format");
