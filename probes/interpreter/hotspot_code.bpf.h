/* Finds the piece of HotSpot's code that contains an address (hotspot.bpf.h): heaps, their segment maps, the blobs in
 * them; and the state shared by all parts of that walk. */
#pragma once

#include "probes/interpreter/interpreter.bpf.h"

#include "probes/hotspot.h"

#define HOTSPOT_HEAPS        4
#define HOTSPOT_HOPS         64
#define HOTSPOT_WALK_HOPS    4096 /* per walk: a limit on CPU time, in case the memory is corrupt or hostile */
#define HOTSPOT_SEGMENT_FREE 0xff
#define HOTSPOT_BLOB_BYTES   256 /* contain everything that is read of a blob */
#define HOTSPOT_CODE_BYTES   64  /* bytes of code that are examined */
#define HOTSPOT_FRAME_MAX    (1 << 20)
#define HOTSPOT_SCOPES_MAX   32 /* nested inlined methods of a frame */

enum hotspot_kind {
    HOTSPOT_STUB,      /* code that sets up a frame pointer, or has no frame */
    HOTSPOT_FRAMELESS, /* code that never has a frame: it finds the method to be called */
    HOTSPOT_ADAPTER,   /* between compiled and interpreted code: it moves arguments */
    HOTSPOT_COMPILED,  /* frames of one size */
    HOTSPOT_METHOD,    /* ... that belong to a method */
    HOTSPOT_INTERPRETER,
};

struct hotspot_heap {
    __u64 low, high, segments, shift;
};

struct hotspot_scratch {
    struct hotspot_layout layout;
    __u32 heaps; /* number of known heaps */
    __u32 is_begun;
    __u32 hops; /* remaining */
    struct hotspot_heap heap[HOTSPOT_HEAPS];
    __u64 interpreter_low, interpreter_high;
    /* The blob found last. */
    __u64 blob_low, blob_high, code, name;
    __u64 method;
    __u32 blob_kind; /* enum hotspot_kind */
    __u32 kind;      /* of the current address: blob_kind, or the interpreter */
    __u32 frame_bytes;
    __s32 complete;
    __u32 block; /* result of hotspot_find_block: segment number */
    /* Of the current method. */
    __u64 symbol[3];       /* class, name, signature */
    __u64 pool, source_in; /* source_in: the pool or class that contains the index of the source file */
    __u64 constant;        /* its ConstMethod */
    __u32 bytecode_bytes;
    /* Of the current nmethod (hotspot_scopes.bpf.h). */
    __u32 pc_count, scope_count, number_at;
    __u64 pcs, scopes, metadata;
    struct {
        __u64 method;
        __u64 position; /* 1 + index of the bytecode */
    } scope[HOTSPOT_SCOPES_MAX];
    __u64 words[16];
    __u8 bytes[HOTSPOT_BLOB_BYTES + 8]; /* of a blob or of code */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set at load: possible CPUs */
    __type(key, __u32);
    __type(value, struct hotspot_scratch);
} hotspot_scratch SEC(".maps");

static __always_inline struct hotspot_scratch *hotspot_scratch_get(void)
{
    __u32 cpu = bpf_get_smp_processor_id();

    return bpf_map_lookup_elem(&hotspot_scratch, &cpu);
}

/* A field of the structure in h->bytes; masked, because the offset comes from the process. */
#define HOTSPOT_FIELD(h, type, offset)                                                                                 \
    (*(type *)((h)->bytes + ((offset) & (HOTSPOT_BLOB_BYTES - 1) & ~(sizeof(type) - 1))))

/* The number that the JVM adds to each byte of a compressed number. */
static __always_inline __u32 hotspot_number_bias(const struct hotspot_scratch *h)
{
    return h->layout.flags & HOTSPOT_NUMBERS_BY_1 ? 1 : 0;
}

/* Reads the current heaps and the interpreter's range. They rarely change, but reading them costs less than tracking
 * changes. */
__noinline int hotspot_read_heaps(void)
{
    struct hotspot_scratch *h = hotspot_scratch_get();
    __u64 list, items;
    __u32 count, bytes;

    if (!h || h->is_begun)
        return 0;
    h->is_begun = 1;
    h->heaps = 0;
    h->interpreter_low = h->interpreter_high = 0;
    if (interpreter_read(&list, 8, h->layout.heaps + h->layout.interpreter) == 0 &&
        interpreter_read(&items, 8, list + h->layout.queue_start) == 0 &&
        interpreter_read(&bytes, 4, list + h->layout.queue_bytes) == 0) {
        h->interpreter_low = items;
        h->interpreter_high = items + bytes;
    }
    if (interpreter_read(&list, 8, h->layout.heaps) || interpreter_read(&count, 4, list + h->layout.list_count) ||
        interpreter_read(&items, 8, list + h->layout.list_items))
        return 0;
    for (__u32 i = 0; i < HOTSPOT_HEAPS && i < count; i++) {
        struct hotspot_heap *heap = &h->heap[i];
        __u64 address;
        __u32 shift;

        if (interpreter_read(&address, 8, items + 8ULL * i) ||
            interpreter_read(heap, 16, address + h->layout.heap_low) ||
            interpreter_read(&heap->segments, 8, address + h->layout.heap_segments) ||
            interpreter_read(&shift, 4, address + h->layout.heap_shift))
            return 0;
        heap->shift = shift & 31;
        h->heaps = i + 1;
    }
    return 0;
}

/* Finds the first segment of the block that contains segment number `segment`: h->block. 0; -1: none. */
__noinline int hotspot_find_block(__u64 segments, __u32 segment)
{
    struct hotspot_scratch *h = hotspot_scratch_get();
    __u8 distance;

    for (int i = 0; h && i < HOTSPOT_HOPS && h->hops; i++) {
        h->hops--;
        if (interpreter_read(&distance, 1, segments + segment) || distance == HOTSPOT_SEGMENT_FREE)
            return -1;
        if (distance == 0) {
            h->block = segment;
            return 0;
        }
        segment -= distance;
    }
    return -1;
}

/* First 8 bytes of "nmethod", "native nmethod", "vtable chunks" and "I2C/C2I adapters". */
#define HOTSPOT_NMETHOD 0x00646f6874656d6eULL
#define HOTSPOT_NATIVE  0x6e2065766974616eULL
#define HOTSPOT_VTABLE  0x6320656c62617476ULL
#define HOTSPOT_I2C_C2I 0x204932432f433249ULL

/* Kind of the blob whose start is in h->bytes. */
static __always_inline __u32 hotspot_kind_of(struct hotspot_scratch *h, __u32 frame_words)
{
    __u64 name = 0;
    bool is_method;

    interpreter_read(&name, 8, h->name);
    is_method = h->layout.flags & HOTSPOT_KINDS ? HOTSPOT_FIELD(h, __u8, h->layout.blob_kind) == h->layout.kind_nmethod
                                                : name == HOTSPOT_NMETHOD || name == HOTSPOT_NATIVE;
    if (frame_words < 2)
        return name == HOTSPOT_VTABLE ? HOTSPOT_FRAMELESS : name == HOTSPOT_I2C_C2I ? HOTSPOT_ADAPTER : HOTSPOT_STUB;
    return is_method ? HOTSPOT_METHOD : HOTSPOT_COMPILED;
}

/* Reads the blob at `blob`. 0; -1: not a blob. */
__noinline int hotspot_read_blob(__u64 blob)
{
    struct hotspot_scratch *h = hotspot_scratch_get();
    __u32 words;

    if (!h)
        return -1;
    h->blob_low = h->blob_high = 0;
    if (bpf_probe_read_user(h->bytes, h->layout.block_bytes & 31, (const void *)(blob - h->layout.block_bytes)) ||
        !HOTSPOT_FIELD(h, __u8, h->layout.block_used) ||
        bpf_probe_read_user(h->bytes, HOTSPOT_BLOB_BYTES, (const void *)blob))
        return -1;
    words = HOTSPOT_FIELD(h, __u32, h->layout.blob_frame);
    if (words > HOTSPOT_FRAME_MAX / 8)
        return -1;
    h->frame_bytes = words * 8;
    h->complete = h->layout.flags & HOTSPOT_SHORT_COMPLETE ? HOTSPOT_FIELD(h, __s16, h->layout.blob_complete)
                                                           : HOTSPOT_FIELD(h, __s32, h->layout.blob_complete);
    h->code = h->layout.flags & HOTSPOT_CODE_OFFSET ? blob + HOTSPOT_FIELD(h, __u32, h->layout.blob_code)
                                                    : HOTSPOT_FIELD(h, __u64, h->layout.blob_code);
    h->method = HOTSPOT_FIELD(h, __u64, h->layout.blob_method);
    h->name = HOTSPOT_FIELD(h, __u64, h->layout.blob_name);
    h->blob_low = blob;
    h->blob_high = blob + HOTSPOT_FIELD(h, __u32, h->layout.blob_bytes);
    h->kind = h->blob_kind = hotspot_kind_of(h, words);
    return 0;
}

/* Finds the blob that contains `address`. 0; -1: none. */
__noinline int hotspot_find_blob(__u64 address)
{
    struct hotspot_scratch *h = hotspot_scratch_get();

    if (!h)
        return -1;
    hotspot_read_heaps();
    if (address - h->interpreter_low < h->interpreter_high - h->interpreter_low) {
        h->kind = HOTSPOT_INTERPRETER;
        return 0;
    }
    if (address - h->blob_low < h->blob_high - h->blob_low) {
        h->kind = h->blob_kind;
        return 0;
    }
    for (__u32 i = 0; i < HOTSPOT_HEAPS && i < h->heaps; i++) {
        struct hotspot_heap *heap = &h->heap[i];
        __u64 blob;

        if (address - heap->low >= heap->high - heap->low)
            continue;
        if (hotspot_find_block(heap->segments, (address - heap->low) >> (heap->shift & 31)))
            return -1;
        blob = heap->low + ((__u64)h->block << (heap->shift & 31)) + h->layout.block_bytes;
        if (hotspot_read_blob(blob))
            return -1;
        return address - blob < h->blob_high - blob ? 0 : -1;
    }
    return -1;
}
