/* Registry of the code objects and functions that the BPF side described (struct python_code, v8_code, hotspot_method).
 * It maps (process, address, check) to a description. Equal descriptions are stored once, because the workers of a
 * server are forked from one program and share theirs.
 *
 * Bounded: the least recently registered or found code is evicted and put on the list of missing codes, which makes the
 * BPF side emit it again. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "resolve/interpreter/interpreter.h"

#include <stddef.h>
#include <stdint.h>

struct code_registry;

/* Five eighths of `max_bytes` hold the code entries, which every process has for itself; the rest holds descriptions.
 * -ENOMEM. */
int code_registry_new(size_t max_bytes, struct code_registry **ret);
void code_registry_free(struct code_registry *t);
DEFINE_FREEP(code_registry)

struct registered_code {
    uint64_t id;         /* unique over the registry's lifetime */
    const uint8_t *data; /* aligned to 8 bytes */
};

/* Registers a code, or replaces its description. Copies `data`. Out of memory: stores nothing; the code is reported
 * missing when a sample refers to it. */
void code_registry_put(struct code_registry *t, const struct missing_code *key, const void *data, size_t bytes);

/* The description of a code; `ret->data` is valid until the next put. False: it was never registered, or was evicted;
 * the key is then added to the missing codes. */
bool code_registry_find(struct code_registry *t, const struct missing_code *key, struct registered_code *ret);

/* Removes up to `max` keys from the list of missing codes and returns how many. */
size_t code_registry_missing(struct code_registry *t, struct missing_code *ret, size_t max);

/* Memory in use. */
size_t code_registry_bytes(const struct code_registry *t);
/* How many codes were evicted to stay within bounds. */
uint64_t code_registry_evicted(const struct code_registry *t);
