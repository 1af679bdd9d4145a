/* Hashing of words, for BPF and user space. Includes nothing, like record.h. */
#pragma once

static inline __u64 hash_mix(__u64 hash, __u64 word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 29;
}
