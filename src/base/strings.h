/* A table of distinct strings: each is stored once and named by a small number. 0 is always the empty string, as in
 * OTLP's and pprof's string tables. Equality is by bytes, never by hash alone. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct strings;

int strings_new(struct strings **ret);
void strings_free(struct strings *s);
DEFINE_FREEP(strings)

/* The number of `text` (added if new; NULL counts as ""). On out of memory, or at the bound: 0, and
 * strings_dropped() counts it. */
uint32_t strings_add(struct strings *s, const char *text);
uint32_t strings_add_n(struct strings *s, const char *text, size_t size);

/* Borrowed until strings_free; "" for a number that does not exist. */
const char *strings_get(const struct strings *s, uint32_t index);

/* Strings that would take the table past `max_bytes` (0: no bound) are dropped like those that find no memory. */
void strings_set_max_bytes(struct strings *s, size_t max_bytes);

size_t strings_size(const struct strings *s, uint32_t index); /* of that one, which may hold NULs */

uint32_t strings_count(const struct strings *s);
size_t strings_bytes(const struct strings *s); /* memory held */
uint64_t strings_dropped(const struct strings *s);
