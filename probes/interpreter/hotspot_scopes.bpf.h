/* The methods that a frame of HotSpot's compiled code runs at an instruction (hotspot.bpf.h), and their positions. An
 * nmethod describes some of its instructions, at least all after which it may stop: a PcDesc each, sorted, leads to a
 * scope in compressed data: the method, the index of its bytecode, and the scope of the caller that it was inlined
 * into. */
#pragma once

#include "probes/interpreter/hotspot_names.bpf.h"

#define HOTSPOT_PCS_MAX      (1 << 20)
#define HOTSPOT_PCS_STEPS    20
#define HOTSPOT_NUMBER_BYTES 5
#define HOTSPOT_NUMBER_LAST  192 /* bytes below it end a number */
#define HOTSPOT_NUMBER_BITS  6   /* of each byte that does not */

struct hotspot_pc {
    __s32 offset; /* from the start of the code */
    __s32 scope;  /* offset in the scopes; 0: none */
    __s32 unused[2];
};

/* Finds the current blob's tables. 0; -1: unreadable or unknown. */
static __always_inline int hotspot_find_tables(struct hotspot_scratch *h)
{
    const struct hotspot_layout *layout = &h->layout;
    __u64 base = h->blob_low, word, bytes;
    __s32 from, to, skip;

    if (!(layout->flags & HOTSPOT_SCOPES) || interpreter_read(&from, 4, h->blob_low + layout->pcs_from) ||
        interpreter_read(&to, 4, h->blob_low + layout->pcs_to) ||
        interpreter_read(&h->scopes, 8, h->blob_low + layout->scopes))
        return -1;
    if (layout->flags & HOTSPOT_APART) {
        if (interpreter_read(&word, 8, h->blob_low + layout->metadata) ||
            interpreter_read(&skip, 4, h->blob_low + layout->relocations))
            return -1;
        base = h->scopes;
        h->scopes += to;
        h->metadata = word + skip;
    } else {
        if (interpreter_read(&skip, 4, h->blob_low + layout->metadata))
            return -1;
        h->metadata = h->blob_low + skip;
    }
    bytes = (__u64)to - from;
    h->pcs = base + from;
    h->pc_count = bytes / sizeof(struct hotspot_pc);
    return bytes / sizeof(struct hotspot_pc) < HOTSPOT_PCS_MAX ? 0 : -1;
}

/* Finds the scope of the instruction at `offset` in the code: of the next described one if `is_interrupted`. 0: none.
 */
__noinline int hotspot_find_scope(__s32 offset, bool is_interrupted)
{
    struct hotspot_scratch *h = hotspot_scratch_get();
    struct hotspot_pc pc;
    __u32 low = 0, high;

    if (!h || hotspot_find_tables(h))
        return 0;
    high = h->pc_count;
    for (int i = 0; i < HOTSPOT_PCS_STEPS && low < high; i++) {
        __u32 middle = (low + high) / 2;
        __s32 at;

        if (interpreter_read(&at, 4, h->pcs + (__u64)middle * sizeof(pc)))
            return 0;
        if (at < offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low >= h->pc_count || interpreter_read(&pc, sizeof(pc), h->pcs + (__u64)low * sizeof(pc)))
        return 0;
    return is_interrupted || pc.offset == offset ? pc.scope : 0;
}

/* Reads the next number from h->bytes. */
static __always_inline __u32 hotspot_take_number(struct hotspot_scratch *h)
{
    __u32 number = 0;

    for (int i = 0; i < HOTSPOT_NUMBER_BYTES; i++) {
        __u8 byte = h->bytes[h->number_at++ & 15];

        number += ((__u32)byte - hotspot_number_bias(h)) << HOTSPOT_NUMBER_BITS * i;
        if (byte < HOTSPOT_NUMBER_LAST)
            break;
    }
    return number;
}

/* Adds the scope at `offset` to h->scope. Returns the offset of its caller's; 0: not inlined, -1: unreadable. */
__noinline int hotspot_read_scope(__u32 offset)
{
    struct hotspot_scratch *h = hotspot_scratch_get();
    __u32 sender, method;
    __u64 at;

    if (!h || bpf_probe_read_user(h->bytes, 16, (const void *)(h->scopes + offset)))
        return -1;
    h->number_at = 0;
    sender = hotspot_take_number(h);
    method = hotspot_take_number(h);
    at = h->scope_count;
    UNWIND_SAME_REGISTER(at);
    if (at >= HOTSPOT_SCOPES_MAX || method == 0 ||
        interpreter_read(&h->scope[at].method, 8, h->metadata + 8ULL * (method - 1)))
        return -1;
    h->scope[at].position = hotspot_take_number(h);
    h->scope_count = at + 1;
    return sender;
}

/* Finds the methods that the current frame runs: h->scope, the innermost first. The outermost one must be the
 * nmethod's. 0; -1: not found. */
static __always_inline int hotspot_find_methods(struct hotspot_scratch *h, const struct unwind_walk *w)
{
    int next = hotspot_find_scope(w->r.ip - h->code, w->interrupted);
    __u64 last;

    h->scope_count = 0;
    for (int i = 0; i < HOTSPOT_SCOPES_MAX && next > 0; i++)
        next = hotspot_read_scope(next);
    last = (__u64)h->scope_count - 1;
    UNWIND_SAME_REGISTER(last);
    return next == 0 && last < HOTSPOT_SCOPES_MAX && h->scope[last].method == h->method ? 0 : -1;
}

/* Adds the entries of the frame recorded last, which runs the method of the current blob, and methods inlined into it.
 */
__noinline int hotspot_put_compiled(void)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();

    if (!scratch || !h || !p || !p->names_code)
        return 0;
    if (hotspot_find_methods(h, &scratch->walk))
        return hotspot_put(h->method, false, 0);
    for (__u32 i = 0; i < HOTSPOT_SCOPES_MAX && i < h->scope_count; i++)
        hotspot_put(h->scope[i].method, false, h->scope[i].position);
    return 0;
}
