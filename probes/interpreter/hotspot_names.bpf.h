/* Names of HotSpot's JIT code (hotspot.bpf.h): the entries of a sample, and the records with a method's or blob's
 * name, emitted once. */
#pragma once

#include "probes/interpreter/hotspot_code.bpf.h"

static __always_inline struct hotspot_method *hotspot_record(struct interpreter_scratch *p)
{
    return (struct hotspot_method *)p->code;
}

/* Reads up to `room` bytes of a symbol; returns its full length. 0: unreadable, or no symbol. */
static __always_inline __u16 hotspot_read_symbol(const struct hotspot_layout *layout, __u64 symbol, __u8 *to,
                                                 __u32 room)
{
    __u16 length = 0;
    __u64 bytes;

    if (symbol == 0 || interpreter_read(&length, 2, symbol + layout->symbol_length))
        return 0;
    bytes = length < room ? length : room;
    UNWIND_SAME_REGISTER(bytes);
    if (bytes == 0 || bytes > room || bpf_probe_read_user(to, bytes, (const void *)(symbol + layout->symbol_body)))
        return 0;
    return length;
}

static __always_inline int hotspot_pool_entry(__u64 pool, __u32 number, const struct hotspot_layout *layout, __u64 *ret)
{
    return interpreter_read(ret, 8, pool + layout->pool_bytes + 8ULL * number);
}

/* The symbol of the current method's source file; 0: none. */
static __always_inline __u64 hotspot_source(const struct hotspot_scratch *h)
{
    __u64 symbol = 0;
    __u16 number;

    if (interpreter_read(&number, 2, h->source_in + h->layout.source_file) == 0 && number)
        hotspot_pool_entry(h->pool, number, &h->layout, &symbol);
    return symbol;
}

/* Reads the current method's line table into its record. Returns its bytes; 0: it has none. */
static __always_inline __u16 hotspot_read_lines(const struct hotspot_scratch *h, struct hotspot_method *m)
{
    const struct hotspot_layout *layout = &h->layout;
    __u64 before = (__u64)layout->const_bytes + h->bytecode_bytes, bytes;
    __u32 words;
    __u16 flags;

    if (!(layout->flags & HOTSPOT_LINES) || interpreter_read(&flags, 2, h->constant + layout->const_flags) ||
        !(flags & HOTSPOT_HAS_LINES) || interpreter_read(&words, 4, h->constant + layout->const_words) ||
        words * 8ULL <= before)
        return 0;
    bytes = words * 8ULL - before;
    if (bytes > HOTSPOT_LINES_BYTES)
        bytes = HOTSPOT_LINES_BYTES;
    UNWIND_SAME_REGISTER(bytes);
    if (bytes > HOTSPOT_LINES_BYTES || bpf_probe_read_user(m->lines, bytes, (const void *)(h->constant + before)))
        return 0;
    return bytes;
}

/* Emits the record of the method whose symbols are in h->symbol. 0: the ring took it. */
__noinline int hotspot_emit_method(__u64 method, __u32 check)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();
    struct hotspot_method *m;
    __u64 bytes;

    if (!p || !h)
        return -1;
    m = hotspot_record(p);
    m->method = method;
    m->check = check;
    m->reserved = 0;
    m->number_bias = hotspot_number_bias(h);
    m->class_bytes = hotspot_read_symbol(&h->layout, h->symbol[0], m->class_data, HOTSPOT_CLASS_BYTES);
    m->name_bytes = hotspot_read_symbol(&h->layout, h->symbol[1], m->name_data, HOTSPOT_NAME_BYTES);
    m->signature_bytes = hotspot_read_symbol(&h->layout, h->symbol[2], m->signature_data, HOTSPOT_SIGNATURE_BYTES);
    m->file_bytes = hotspot_read_symbol(&h->layout, hotspot_source(h), m->file_data, HOTSPOT_FILE_BYTES);
    if (m->class_bytes == 0 || m->name_bytes == 0 || m->signature_bytes == 0)
        return -1;
    m->lines_bytes = hotspot_read_lines(h, m);
    bytes = sizeof(*m) + ((m->lines_bytes + 7) & ~7ULL);
    UNWIND_SAME_REGISTER(bytes);
    if (bytes > sizeof(*m) + HOTSPOT_LINES_BYTES)
        return -1;
    m->h.size_bytes = bytes;
    return bpf_ringbuf_output(&records, m, bytes, BPF_RB_NO_WAKEUP) ? -1 : 0;
}

/* Finds the method's symbols, its constant pool and where its source file is named, and adds the structures that it
 * consists of to `*hash`. False: unreadable. */
static __always_inline bool hotspot_find_symbols(struct hotspot_scratch *h, __u64 method, __u64 *hash)
{
    __u64 constant, pool, holder;
    __u16 name, signature, code_bytes;

    if (interpreter_read(&constant, 8, method + h->layout.method_const) ||
        bpf_probe_read_user(h->bytes, HOTSPOT_CODE_BYTES, (const void *)constant))
        return false;
    pool = HOTSPOT_FIELD(h, __u64, h->layout.const_pool);
    name = HOTSPOT_FIELD(h, __u16, h->layout.const_name);
    signature = HOTSPOT_FIELD(h, __u16, h->layout.const_signature);
    code_bytes = HOTSPOT_FIELD(h, __u16, h->layout.const_code_bytes);
    if (interpreter_read(&holder, 8, pool + h->layout.pool_holder) ||
        interpreter_read(&h->symbol[0], 8, holder + h->layout.class_name) ||
        hotspot_pool_entry(pool, name, &h->layout, &h->symbol[1]) ||
        hotspot_pool_entry(pool, signature, &h->layout, &h->symbol[2]))
        return false;
    h->constant = constant;
    h->bytecode_bytes = code_bytes;
    h->pool = pool;
    h->source_in = h->layout.flags & HOTSPOT_SOURCE_IN_CLASS ? holder : pool;
    *hash = hash_mix(hash_mix(*hash, constant), pool);
    *hash = hash_mix(hash_mix(*hash, holder), (__u64)name << 32 | signature << 16 | code_bytes);
    return true;
}

/* Returns `hash` with a symbol added: its address, its length, all characters of a short name, the end of a longer one,
 * where generated names differ. Unreadable characters count as 0. */
static __always_inline __u64 hotspot_hash_symbol(struct hotspot_scratch *h, __u64 hash, __u64 body, __u16 length)
{
    h->words[0] = h->words[1] = 0;
    if (length >= 16) {
        interpreter_read(h->words, 16, body + length - 16);
    } else if (length >= 8) {
        interpreter_read(&h->words[0], 8, body);
        interpreter_read(&h->words[1], 8, body + length - 8);
    } else if (length >= 4) {
        interpreter_read(&h->words[0], 4, body);
        interpreter_read(&h->words[1], 4, body + length - 4);
    } else if (length) { /* the next bytes may be another symbol's reference count */
        interpreter_read(&h->words[0], 1, body);
        interpreter_read(&h->words[1], 1, body + length - 1);
        hash = hash_mix(hash, h->words[1]);
        if (length == 3)
            interpreter_read(&h->words[1], 1, body + 1);
    }
    hash = hash_mix(hash_mix(hash, body), length);
    return hash_mix(hash_mix(hash, h->words[0]), h->words[1]);
}

/* Finds the method's symbols and computes its check, which distinguishes it from other methods at the same address; 0:
 * unreadable. When classes are unloaded and loaded, the structures of a Method are freed and reused at the same
 * addresses, so the check includes characters of the names, too. */
__noinline __u32 hotspot_identify(__u64 method)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();
    __u64 hash;

    if (!p || !h)
        return 0;
    hash = p->seed;
    if (!hotspot_find_symbols(h, method, &hash))
        return 0;
    for (int i = 0; i < 3; i++) {
        __u64 symbol = h->symbol[i];
        __u16 length = 0;

        if (interpreter_read(&length, 2, symbol + h->layout.symbol_length))
            return 0;
        hash = hotspot_hash_symbol(h, hash, symbol + h->layout.symbol_body, length);
    }
    return hash >> 32 | 1;
}

/* The check of a blob without a method, from its name. */
__noinline __u32 hotspot_identify_blob(void)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();
    __u64 hash;

    if (!p || !h || bpf_probe_read_user(h->words, 16, (const void *)h->name))
        return 0;
    hash = hash_mix(hash_mix(p->seed, h->name), h->blob_high - h->blob_low);
    hash = hash_mix(hash_mix(hash, h->words[0]), h->words[1]);
    return hash >> 32 | 1;
}

__noinline int hotspot_emit_blob(__u64 blob, __u32 check)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();
    struct hotspot_method *m;
    long bytes;

    if (!p || !h)
        return -1;
    m = hotspot_record(p);
    m->h.size_bytes = sizeof(*m);
    m->method = blob;
    m->check = check;
    m->class_bytes = m->signature_bytes = m->file_bytes = m->lines_bytes = 0;
    m->number_bias = m->reserved = 0;
    bytes = bpf_probe_read_user_str(m->name_data, HOTSPOT_NAME_BYTES, (const void *)h->name);
    if (bytes <= 1)
        return -1;
    m->name_bytes = bytes - 1;
    return bpf_ringbuf_output(&records, m, sizeof(*m), BPF_RB_NO_WAKEUP) ? -1 : 0;
}

#define HOTSPOT_POSITION_MAX 0x10000 /* the bytecode of a method has at most 64 KiB */

/* Adds an entry: the frame recorded last runs the code at `code`, a Method or, if `is_blob`, a blob. `position`: 1 +
 * index of the bytecode, or its address; 0: unknown. */
__noinline int hotspot_put(__u64 code, bool is_blob, __u64 position)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    struct interpreter_scratch *p = interpreter_scratch_get();
    struct hotspot_scratch *h = hotspot_scratch_get();
    __u32 check;
    __u64 hash, *emitted;

    if (!scratch || !p || !h || !p->names_code)
        return 0;
    check = is_blob ? hotspot_identify_blob() : hotspot_identify(code);
    if (position > HOTSPOT_POSITION_MAX)
        position -= h->constant + h->layout.const_bytes - 1;
    if (!check || position > h->bytecode_bytes)
        position = 0;
    interpreter_put(p, code, scratch->walk.frames | position << INTERPRETER_ENTRY_POSITION_SHIFT, check);
    scratch->walk.interpreted = 1;
    if (!check)
        return 0;
    emitted = emitted_code_slot(p, scratch->walk.pid, code, check, &hash);
    if (emitted && (is_blob ? hotspot_emit_blob(code, check) : hotspot_emit_method(code, check)) == 0)
        *emitted = hash;
    return 0;
}
