/* Reads V8's strings (v8.h) and counts lines in them, for the records that v8.bpf.h emits.
 *
 * A string consists of characters, or refers to other strings: to an equal one (thin), to a part of another (sliced),
 * to two that it concatenates (cons), to memory outside the heap (external). References are followed in a bounded
 * number of steps. */
#pragma once

#include "probes/interpreter/interpreter.bpf.h"

#define V8_TEXT_BYTES   1024 /* of one string: the maximum */
#define V8_PIECES       8    /* pending, behind those before them */
#define V8_STEPS        24
#define V8_CHUNK_BYTES  4096
#define V8_SOURCE_BYTES 262144 /* limit of source bytes searched for line ends, for all functions of a sample */

struct v8_scratch {
    struct v8_layout layout;
    __u64 words[8];                    /* of the current object */
    __u64 name, inferred_name, script; /* of the current function: tagged pointers; no name: 0 */
    __u64 start, end;                  /* of the function in its script's source: characters */
    __u64 piece[V8_PIECES];
    __u32 pieces;
    __u32 width;      /* bytes per character; 0: not known yet */
    __u32 used;       /* bytes of text[] */
    __u32 room;       /* characters still wanted */
    __u64 skip, take; /* the next piece is a part of a string */
    __u32 is_part;
    __u32 locates; /* the single piece is located instead of copied */
    __u64 located, located_length;
    __u64 left, counted; /* of the source: bytes left to count in; words of the chunk already counted */
    __u32 queued_count;
    __u16 queued[EMITTED_CODES_PER_SAMPLE]; /* entries whose functions' records are to be emitted */
    __u32 source_bytes;                     /* searched for line ends in this sample */
    __u32 newlines, returns, separators;
    __u8 text[2 * V8_TEXT_BYTES];
    __u64 chunk[V8_CHUNK_BYTES / 8];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* set at load: possible CPUs */
    __type(key, __u32);
    __type(value, struct v8_scratch);
} v8_scratch SEC(".maps");

static __always_inline struct v8_scratch *v8_scratch_get(void)
{
    __u32 cpu = bpf_get_smp_processor_id();

    return bpf_map_lookup_elem(&v8_scratch, &cpu);
}

/* An object's type; -1: not an object. */
__noinline int v8_type(__u64 object)
{
    struct v8_scratch *v = v8_scratch_get();
    __u64 map;
    __u16 type;

    if (!v || (object & V8_TAG_MASK) != V8_TAG || interpreter_read(&map, 8, object - V8_TAG) ||
        (map & V8_TAG_MASK) != V8_TAG || interpreter_read(&type, 2, map - V8_TAG + v->layout.map_type))
        return -1;
    return type;
}

static __always_inline void v8_push(struct v8_scratch *v, __u64 object)
{
    v->piece[v->pieces & (V8_PIECES - 1)] = object;
    v->pieces++;
}

/* Copies characters at `address`, as many as are still wanted. */
static __always_inline int v8_characters(struct v8_scratch *v, __u64 address, __u64 length, __u32 width)
{
    __u64 bytes, used = v->used;

    if (v->locates) {
        if (v->pieces)
            return -1;
        v->located = address;
        v->located_length = length;
        v->width = width;
        return 0;
    }
    if (length == 0)
        return 0;
    if (v->width && v->width != width)
        return -1;
    v->width = width;
    if (length > v->room)
        length = v->room;
    bytes = length * width;
    UNWIND_SAME_REGISTER(bytes);
    UNWIND_SAME_REGISTER(used);
    if (used > V8_TEXT_BYTES || bytes > V8_TEXT_BYTES)
        return -1;
    if (bytes && bpf_probe_read_user(v->text + used, bytes, (const void *)address))
        return -1;
    v->used = used + bytes;
    v->room -= length;
    return 0;
}

/* Two strings in sequence; skips the empty second one of a flattened cons string. */
static __always_inline int v8_cons(struct v8_scratch *v, __u64 address)
{
    __u64 first, second;
    __u32 length;

    if (v->pieces > V8_PIECES - 2 || interpreter_read(&first, 8, address + v->layout.cons_first) ||
        interpreter_read(&second, 8, address + v->layout.cons_second) ||
        interpreter_read(&length, 4, second - V8_TAG + v->layout.string_length))
        return -1;
    if (length)
        v8_push(v, second);
    v8_push(v, first);
    return 0;
}

static __always_inline int v8_part(struct v8_scratch *v, __u64 address, __u32 length)
{
    __u64 offset, parent;

    if (v->is_part || v->pieces > V8_PIECES - 1 || interpreter_read(&parent, 8, address + v->layout.sliced_parent) ||
        interpreter_read(&offset, 8, address + v->layout.sliced_offset))
        return -1;
    v->skip = offset >> 32;
    v->take = length;
    v->is_part = 1;
    v8_push(v, parent);
    return 0;
}

/* Handles the next piece. 0; -1: unreadable. */
__noinline int v8_piece(void)
{
    struct v8_scratch *v = v8_scratch_get();
    __u64 address, data;
    __u32 length, width;
    int type;

    if (!v)
        return -1;
    v->pieces--;
    address = v->piece[v->pieces & (V8_PIECES - 1)];
    type = v8_type(address);
    address -= V8_TAG;
    if (type < 0 || type & v->layout.not_string || interpreter_read(&length, 4, address + v->layout.string_length))
        return -1;
    width = type & V8_ONE_BYTE ? 1 : 2;
    switch (type & V8_REPRESENTATION) {
    case V8_CONS:
        return v->is_part ? -1 : v8_cons(v, address);
    case V8_SLICED:
        return v8_part(v, address, length);
    case V8_THIN:
        if (interpreter_read(&data, 8, address + v->layout.thin_actual))
            return -1;
        v8_push(v, data);
        return 0;
    case V8_SEQUENTIAL:
        data = address + v->layout.string_chars;
        break;
    case V8_EXTERNAL:
        if (type & V8_UNCACHED || interpreter_read(&data, 8, address + v->layout.external_data))
            return -1;
        break;
    default:
        return -1;
    }
    if (v->is_part) {
        if (v->skip > length || v->take > length - v->skip)
            return -1;
        data += v->skip * width;
        length = v->take;
        v->is_part = 0;
    }
    return v8_characters(v, data, length, width);
}

/* Reads up to `room` characters of the string into text[]; with `locates`, finds its address instead. 0; -1: not a
 * string, or unreadable. */
__noinline int v8_string(__u64 object, __u32 room, __u32 locates)
{
    struct v8_scratch *v = v8_scratch_get();

    if (!v)
        return -1;
    v->pieces = v->used = v->width = v->is_part = 0;
    v->room = room;
    v->locates = locates;
    v8_push(v, object);
    for (int i = 0; i < V8_STEPS; i++) {
        if (v->pieces == 0 || (v->room == 0 && !locates))
            return 0;
        if (v8_piece())
            return -1;
    }
    return -1;
}

/* ---- lines ---- */

/* Number of zero characters in the word, which have `bits`; `high`: the top bit of each; `ones`: the lowest bit of
 * each. It has no branches, because they would multiply the verifier's work. */
static __always_inline __u32 v8_zeros(__u64 word, __u64 high, __u64 ones, __u32 bits)
{
    __u64 zeros = ~(((word & ~high) + ~high) | word | ~high);

    return (zeros >> (bits - 1)) * ones >> (64 - bits);
}

#define V8_WORDS_A_LEG 8

/* Counts in some more words of the current chunk. */
__noinline int v8_count_leg(void)
{
    struct v8_scratch *v = v8_scratch_get();
    __u32 bits = v && v->width != 1 ? 16 : 8;
    __u64 ones = bits == 8 ? 0x0101010101010101ULL : 0x0001000100010001ULL, high = ones << (bits - 1);
    __u64 newline = 10 * ones, ret = 13 * ones, separator = 0x2028202820282028ULL;
    __u64 has_separators = bits == 8 ? 0 : ~0ULL; /* U+2028 and U+2029 */
    __u32 newlines = 0, returns = 0, separators = 0;

    if (!v)
        return -1;
    for (__u32 i = 0; i < V8_WORDS_A_LEG; i++) {
        __u64 word = v->chunk[(v->counted + i) & (V8_CHUNK_BYTES / 8 - 1)];

        newlines += v8_zeros(word ^ newline, high, ones, bits);
        returns += v8_zeros(word ^ ret, high, ones, bits);
        separators += v8_zeros((word ^ separator) & ~ones, high, ones, bits) & has_separators;
    }
    v->counted += V8_WORDS_A_LEG;
    v->newlines += newlines;
    v->returns += returns;
    v->separators += separators;
    return 0;
}

static const volatile __u8 v8_no_text[V8_CHUNK_BYTES] = {};

/* Counts in the next V8_CHUNK_BYTES of the source, or the rest of it; the padding zeros are not line ends. 0:
 * continue. Progress is kept in the scratch memory only, so that the verifier checks one chunk for all. */
__noinline int v8_count_chunk(void)
{
    struct v8_scratch *v = v8_scratch_get();
    __u64 bytes, address;

    if (!v)
        return -1;
    address = v->located;
    bytes = v->left < V8_CHUNK_BYTES ? v->left : V8_CHUNK_BYTES;
    v->located = address + bytes;
    v->left -= bytes;
    if (bytes < V8_CHUNK_BYTES)
        (void)bpf_probe_read_kernel(v->chunk, sizeof(v->chunk), (const void *)v8_no_text);
    UNWIND_SAME_REGISTER(bytes);
    if (bytes == 0 || bytes > V8_CHUNK_BYTES || bpf_probe_read_user(v->chunk, bytes, (const void *)address))
        return -1;
    v->counted = 0;
    for (__u32 i = 0; i < V8_CHUNK_BYTES / 8 / V8_WORDS_A_LEG; i++)
        v8_count_leg();
    return 0;
}

/* The line of character `start` of the source. 0: unreadable, too far from the start, or with line ends that simple
 * counting cannot handle; -1: this sample has counted enough, a later one may. */
__noinline int v8_line(__u64 source, __u64 start)
{
    struct v8_scratch *v = v8_scratch_get();
    __u64 bytes;

    if (!v || v8_string(source, 0, 1) || start > v->located_length)
        return 0;
    bytes = start * v->width;
    if (bytes > V8_SOURCE_BYTES)
        return 0;
    if (v->source_bytes && v->source_bytes + bytes > V8_SOURCE_BYTES)
        return -1;
    v->source_bytes += bytes;
    v->newlines = v->returns = v->separators = 0;
    v->left = bytes;
    for (int i = 0; i < V8_SOURCE_BYTES / V8_CHUNK_BYTES && v->left; i++)
        if (v8_count_chunk())
            return 0;
    if (v->separators || (v->returns && v->returns != v->newlines))
        return 0;
    return 1 + v->newlines;
}
