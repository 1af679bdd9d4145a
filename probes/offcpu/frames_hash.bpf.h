/* Hashes the frames of a stack in the CPU's scratch memory: equal stacks are sent once. For offcpu.bpf.c
 * (stack_hash.bpf.h) and waits.bpf.c. */
#pragma once

#include "probes/interpreter/interpreter.bpf.h"

/* Words or entries in one call of a global function, which the verifier checks once. */
#define HASH_PIECE 32
#define HASH_WORDS (STACK_MAX_KERNEL_FRAMES + STACK_MAX_USER_FRAMES)

/* Adds the words [from, words) of data[], at most HASH_PIECE of them. */
__noinline __u64 hash_stack_piece(__u64 hash, __u32 from, __u32 words)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    for (__u32 i = 0; scratch && i < HASH_PIECE && from + i < words; i++) {
        __u64 at = from + i;
        asm volatile("" : "+r"(at)); /* the compiler must check the index that it uses */
        if (at >= HASH_WORDS)
            break;
        hash = hash_mix(hash, scratch->data[at]);
    }
    return hash;
}

/* Hashes the first words of data[]. Never 0. */
__noinline __u64 hash_stack(__u32 words)
{
    __u64 hash = words;
    for (__u32 from = 0; from < HASH_WORDS && from < words; from += HASH_PIECE)
        hash = hash_stack_piece(hash, from, words);
    return hash | 1;
}

/* Adds the entries [from, entries) of the interpreter, at most HASH_PIECE of them. */
__noinline __u64 hash_interpreted_piece(__u64 hash, __u32 from)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    for (__u32 i = 0; p && i < HASH_PIECE && from + i < p->entries; i++) {
        __u64 at = from + i;
        asm volatile("" : "+r"(at));
        if (at >= INTERPRETER_MAX_ENTRIES)
            break;
        hash = hash_mix(hash, p->entry[at].code);
        hash = hash_mix(hash, (__u64)p->entry[at].check << 32 | p->entry[at].instruction);
    }
    return hash;
}

/* Adds the interpreter's frames, which native frames do not distinguish. */
__noinline __u64 hash_interpreted(__u64 hash)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    if (!p)
        return hash;
    for (__u32 from = 0; from < INTERPRETER_MAX_ENTRIES && from < p->entries; from += HASH_PIECE)
        hash = hash_interpreted_piece(hash, from);
    return hash_mix(hash, (__u64)p->end << 32 | p->flags) | 1;
}
