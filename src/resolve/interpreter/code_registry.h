/* What kernel halves have told of code that a runtime has in memory (code objects, functions): by process, address and check, a content that is
 * held once for all that say the same, byte by byte; the workers of a server are forked from one program. Bounded: who was told or
 * found least recently is forgotten, and put on a list of what is to be told again. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/interpreter/interpreter.h"

#include <stddef.h>
#include <stdint.h>

struct told_code;

/* Five eighths of the memory for the codes, of which each process has its own, the rest for what they say. */
int told_code_new(size_t max_bytes, struct told_code **ret);
void told_code_free(struct told_code *t);
DEFINE_FREEP(told_code)

struct told_content {
    uint64_t id; /* never used again */
    const uint8_t *data; /* aligned to 8 */
};

/* Replaces what was told before. When memory is out nothing is kept: it is told again when it is met. */
void told_code_put(struct told_code *t, const struct missing_code *key, const void *data, size_t bytes);

/* Until the next put. False: it was never told, or is forgotten, which is noted as missing. */
bool told_code_find(struct told_code *t, const struct missing_code *key, struct told_content *ret);

size_t told_code_missing(struct told_code *t, struct missing_code *ret, size_t max);

size_t told_code_bytes(const struct told_code *t);
uint64_t told_code_forgotten(const struct told_code *t);
