/* What kernel halves have told of code that a runtime has in memory (code objects, functions): by process, address and
 * check, a content that is held once for all that say the same, byte by byte; the workers of a server are forked from
 * one program. Bounded: who was told or found least recently is forgotten, and put on a list of what is to be told
 * again. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/interpreter/interpreter.h"

#include <stddef.h>
#include <stdint.h>

struct code_registry;

/* Five eighths of the memory for the codes, of which each process has its own, the rest for what they say. */
int code_registry_new(size_t max_bytes, struct code_registry **ret);
void code_registry_free(struct code_registry *t);
DEFINE_FREEP(code_registry)

struct registered_code {
    uint64_t id;         /* never used again */
    const uint8_t *data; /* aligned to 8 */
};

/* Replaces what was told before. When memory is out nothing is kept: it is told again when it is met. */
void code_registry_put(struct code_registry *t, const struct missing_code *key, const void *data, size_t bytes);

/* Until the next put. False: it was never told, or is forgotten, which is noted as missing. */
bool code_registry_find(struct code_registry *t, const struct missing_code *key, struct registered_code *ret);

size_t code_registry_missing(struct code_registry *t, struct missing_code *ret, size_t max);

size_t code_registry_bytes(const struct code_registry *t);
uint64_t code_registry_forgotten(const struct code_registry *t);
