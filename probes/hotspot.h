/* Frames of HotSpot (Java) in samples: what the BPF side needs to know of a process's JVM, and the records it writes.
 *
 * HotSpot's JIT code has no frame pointer and no .eh_frame. The JVM unwinds it by its metadata per piece of code
 * (CodeBlob): the frame size, and the first instruction with a complete frame. libjvm.so publishes the layout
 * of that metadata for debuggers (gHotSpotVMStructs and related symbols), so no table of versions is needed:
 * src/resolve/interpreter/hotspot_layout.c reads it once per process, and hotspot.bpf.h unwinds with it.
 *
 * A frame of HotSpot's JIT code is an entry after the sample (interpreter/interpreter.h): the address of its Method, or
 * of its blob if there is no Method, the number of its native frame, and its position: 1 + index of the current
 * bytecode. A frame with inlined methods has an entry for each of them. The names and the line table of a Method, or
 * the name of a blob, are emitted once, in a record before the first sample that contains it (struct hotspot_method).
 */
#pragma once

#include "probes/common/record.h"

enum { RECORD_HOTSPOT_METHOD = 7 }; /* struct hotspot_method: a method in the following samples */

/* Addresses in the process, and offsets in the JVM's structures. */
struct hotspot_layout {
    __u64 heaps;       /* of CodeCache::_heaps; 0: no supported HotSpot in this process */
    __s32 low_bound;   /* from there to CodeCache::_low_bound: all JIT code lies between this */
    __s32 high_bound;  /* and this */
    __s32 interpreter; /* from there to AbstractInterpreter::_code */
    __u16 list_count;  /* GrowableArray */
    __u16 list_items;
    __u16 heap_low;      /* CodeHeap: where its code begins; the end follows */
    __u16 heap_segments; /* its segment map */
    __u16 heap_shift;
    __u16 block_used; /* HeapBlock, which precedes each blob */
    __u16 block_bytes;
    __u16 blob_bytes;    /* CodeBlob */
    __u16 blob_complete; /* offset in its code of the first instruction with a complete frame; -1: unknown */
    __u16 blob_frame;    /* frame size in words */
    __u16 blob_code;     /* where its code begins */
    __u16 blob_name;
    __u16 blob_kind;   /* with HOTSPOT_KINDS */
    __u16 blob_method; /* nmethod: its method */
    __u16 queue_start; /* StubQueue */
    __u16 queue_bytes;
    __u16 method_const;
    __u16 const_pool; /* ConstMethod */
    __u16 const_code_bytes;
    __u16 const_name;
    __u16 const_signature;
    __u16 pool_bytes; /* ConstantPool, followed by its entries */
    __u16 pool_holder;
    __u16 source_file; /* index of its name; in the pool, or with HOTSPOT_SOURCE_IN_CLASS in the class */
    __u16 class_name;
    __u16 symbol_length;
    __u16 symbol_body;
    __u8 kind_nmethod; /* with HOTSPOT_KINDS */
    __u8 flags;        /* HOTSPOT_* */
    /* With HOTSPOT_LINES: */
    __u8 const_bytes; /* size of a ConstMethod; its bytecode and its line table follow */
    __u8 const_words; /* the field with the size of all that, in words */
    __u8 const_flags; /* with HOTSPOT_HAS_LINES */
    /* With HOTSPOT_SCOPES, fields of an nmethod: */
    __u8 relocations;       /* HOTSPOT_APART: bytes in the mutable data before the metadata */
    __u16 pcs_from, pcs_to; /* offsets of its PcDescs, from the nmethod or (HOTSPOT_APART) from the immutable data */
    __u16 scopes;   /* address of the scopes; HOTSPOT_APART: of the immutable data, where they follow the PcDescs */
    __u16 metadata; /* offset of the metadata from the nmethod; HOTSPOT_APART: address of the mutable data */
};
_Static_assert(sizeof(struct hotspot_layout) == 88, "table format");

#define HOTSPOT_KINDS           1 /* since 23: a blob has a kind; before, only a name */
#define HOTSPOT_CODE_OFFSET     2 /* since 23: blob_code is an offset (__s32) from the blob, not an address */
#define HOTSPOT_SHORT_COMPLETE  4 /* since 23: blob_complete has 16 bits */
#define HOTSPOT_SOURCE_IN_CLASS 8 /* before 12 */
#define HOTSPOT_LINES           16
#define HOTSPOT_SCOPES          32
#define HOTSPOT_APART           64  /* since 25: PcDescs and scopes in immutable data, metadata in mutable data */
#define HOTSPOT_NUMBERS_BY_1    128 /* since 20: each byte of a compressed number is 1 larger, so that it is not 0 */

#define HOTSPOT_HAS_LINES       1 /* in the flags of a ConstMethod */

#define HOTSPOT_CLASS_BYTES     512
#define HOTSPOT_NAME_BYTES      256
#define HOTSPOT_SIGNATURE_BYTES 512
#define HOTSPOT_FILE_BYTES      256
#define HOTSPOT_LINES_BYTES     8192

struct hotspot_method { /* RECORD_HOTSPOT_METHOD: a method in the following samples */
    struct record_header h;
    __u64 method;
    __u32 check; /* distinguishes it from other methods at the same address */
    /* Lengths of the strings, in the JVM's modified UTF-8; bytes that did not fit are missing. */
    __u16 class_bytes, name_bytes, signature_bytes, file_bytes;
    __u16 lines_bytes; /* of its compressed line table, which ends with a 0; more may follow, and the end may be missing
                        */
    __u8 number_bias;  /* as in hotspot_layout */
    __u8 reserved;
    __u8 class_data[HOTSPOT_CLASS_BYTES];         /* "java/util/HashMap"; empty: not the code of a method */
    __u8 name_data[HOTSPOT_NAME_BYTES];           /* "get"; "StubRoutines (1)" */
    __u8 signature_data[HOTSPOT_SIGNATURE_BYTES]; /* "(Ljava/lang/Object;)Ljava/lang/Object;" */
    __u8 file_data[HOTSPOT_FILE_BYTES];           /* "HashMap.java"; empty: unknown */
    __u8 lines[];
};
_Static_assert(sizeof(struct hotspot_method) == 48 + 1536, "record format");

static inline int hotspot_method_is_sound(const struct hotspot_method *m)
{
    return m->h.size_bytes >= sizeof(*m) && m->lines_bytes <= HOTSPOT_LINES_BYTES &&
           m->h.size_bytes - sizeof(*m) >= m->lines_bytes;
}
