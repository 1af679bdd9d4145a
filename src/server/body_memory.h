/* The memory of the bodies of requests under way, divided among clients: a client may hold as much as is still free. So
 * one client holds at most half of all memory, two hold at most two thirds, and another one always gets some.
 * Thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct body_memory;

/* For bodies of `max_bytes` together. 0 or -ENOMEM. */
int body_memory_new(size_t max_bytes, struct body_memory **ret);
void body_memory_free(struct body_memory *m);
DEFINE_FREEP(body_memory)

/* Whether the client may hold so many more bytes now. Nothing is changed: the client may never send them. */
bool body_memory_allows(struct body_memory *m, uint64_t client, size_t bytes);
/* The client holds so many more bytes. False: it may not, and nothing is changed. */
bool body_memory_take(struct body_memory *m, uint64_t client, size_t bytes);
/* Gives back bytes that the client took. */
void body_memory_give(struct body_memory *m, uint64_t client, size_t bytes);

/* What all clients hold. */
size_t body_memory_held(struct body_memory *m);
