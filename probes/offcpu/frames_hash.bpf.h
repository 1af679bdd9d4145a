/* Hashes the frames of a stack in the CPU's scratch memory: equal stacks are sent once. For offcpu.bpf.c
 * (stack_hash.bpf.h) and waits.bpf.c. */
#pragma once

#include "probes/interpreter/interpreter.bpf.h"

#define HASH_WORDS (STACK_MAX_KERNEL_FRAMES + STACK_MAX_USER_FRAMES)

/* Hashes the first words of data[]. Never 0. */
__noinline __u64 hash_stack(__u32 words)
{
    struct unwind_scratch *scratch = unwind_scratch_get();
    __u64 hash = words;
    if (!scratch)
        return 1;
    for (__u32 i = 0; i < HASH_WORDS && i < words; i++)
        hash = hash_mix(hash, scratch->data[i]);
    return hash | 1;
}

/* Adds the interpreter's frames, which native frames do not distinguish. */
__noinline __u64 hash_interpreted(__u64 hash)
{
    struct interpreter_scratch *p = interpreter_scratch_get();
    if (!p)
        return hash;
    for (__u32 i = 0; i < INTERPRETER_MAX_ENTRIES && i < p->entries; i++) {
        hash = hash_mix(hash, p->entry[i].code);
        hash = hash_mix(hash, (__u64)p->entry[i].check << 32 | p->entry[i].instruction);
    }
    return hash_mix(hash, (__u64)p->end << 32 | p->flags) | 1;
}
