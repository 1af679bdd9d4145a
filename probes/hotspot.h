/* Frames of HotSpot (Java) in samples: what the kernel half must know of a process's virtual machine, and what it
 * writes.
 *
 * Code that HotSpot makes keeps no frame pointer and has no .eh_frame; the machine itself walks it by what it knows of
 * each piece of code (CodeBlob): how large its frames are and from which instruction on they are whole. libjvm.so
 * publishes where it keeps that, for debuggers (gHotSpotVMStructs and its neighbours), and so no table of versions is
 * needed: src/resolve/interpreter/hotspot_layout.c reads it once a process, hotspot.bpf.h walks by it.
 *
 * A frame of code that HotSpot made is an entry behind the sample (python.h): the address of its Method, or of its blob
 * where it is of none, with the number of the native frame that it is. What a Method or a blob says of itself comes
 * apart, once, in a record ahead of the first sample that has it (struct hotspot_method). */
#pragma once

#include "probes/common/record.h"

/* Addresses in the process, and offsets in the machine's structures. */
struct hotspot_layout {
    __u64 heaps;       /* of CodeCache::_heaps; 0: the process has no HotSpot that we can read */
    __u64 low_bound;   /* of CodeCache::_low_bound: all code that was made lies from there */
    __u64 high_bound;  /* to there */
    __u64 interpreter; /* of AbstractInterpreter::_code */
    __u16 list_count;  /* GrowableArray */
    __u16 list_items;
    __u16 heap_low;      /* CodeHeap: where its code begins; where it ends follows */
    __u16 heap_segments; /* its map of segments */
    __u16 heap_shift;
    __u16 block_used; /* HeapBlock, which stands before each blob */
    __u16 block_bytes;
    __u16 blob_bytes;    /* CodeBlob */
    __u16 blob_complete; /* from which byte of its code on a frame is whole; -1: nobody says */
    __u16 blob_frame;    /* a frame's words */
    __u16 blob_code;     /* where its code begins */
    __u16 blob_name;
    __u16 blob_kind;   /* with HOTSPOT_KINDS */
    __u16 blob_method; /* nmethod: of which method it is */
    __u16 queue_start; /* StubQueue */
    __u16 queue_bytes;
    __u16 method_const;
    __u16 const_pool; /* ConstMethod */
    __u16 const_code_bytes;
    __u16 const_name;
    __u16 const_signature;
    __u16 pool_bytes; /* ConstantPool, behind which its entries are */
    __u16 pool_holder;
    __u16 source_file; /* number of its name; in the pool, or with HOTSPOT_SOURCE_IN_CLASS in the class */
    __u16 class_name;
    __u16 symbol_length;
    __u16 symbol_body;
    __u8 kind_nmethod; /* with HOTSPOT_KINDS */
    __u8 flags;        /* HOTSPOT_* */
};
_Static_assert(sizeof(struct hotspot_layout) == 88, "table format");

#define HOTSPOT_KINDS           1 /* since 23: a blob says of what kind it is; before, its name does */
#define HOTSPOT_CODE_OFFSET     2 /* since 23: blob_code is an offset (__s32) from the blob, not an address */
#define HOTSPOT_SHORT_COMPLETE  4 /* since 23: of 16 bits */
#define HOTSPOT_SOURCE_IN_CLASS 8 /* before 12 */

#define HOTSPOT_CLASS_BYTES     512
#define HOTSPOT_NAME_BYTES      256
#define HOTSPOT_SIGNATURE_BYTES 512
#define HOTSPOT_FILE_BYTES      256

struct hotspot_method { /* RECORD_HOTSPOT_METHOD: of methods in the samples that follow */
    struct record_header h;
    __u64 method;
    __u32 check; /* tells it from others at the same address */
    /* How long its texts are, in the machine's own UTF-8; what there was no room for is missing. */
    __u16 class_bytes, name_bytes, signature_bytes, file_bytes;
    __u32 reserved;
    __u8 class_data[HOTSPOT_CLASS_BYTES];         /* "java/util/HashMap"; none: no method's code */
    __u8 name_data[HOTSPOT_NAME_BYTES];           /* "get"; "StubRoutines (1)" */
    __u8 signature_data[HOTSPOT_SIGNATURE_BYTES]; /* "(Ljava/lang/Object;)Ljava/lang/Object;" */
    __u8 file_data[HOTSPOT_FILE_BYTES];           /* "HashMap.java"; none: it is not known */
};
_Static_assert(sizeof(struct hotspot_method) == 48 + 1536, "wire format");
