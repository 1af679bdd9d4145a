/* A table of distinct strings: each is stored once and identified by a small index. Index 0 is always the empty
 * string, as in OTLP's and pprof's string tables. Equality is by bytes, never by hash alone. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct strings;

int strings_new(struct strings **ret);
void strings_free(struct strings *s);
DEFINE_FREEP(strings)

/* The index of `text` (added if new; NULL counts as ""). When out of memory or past the limit: 0, counted by
 * strings_dropped(). */
uint32_t strings_add(struct strings *s, const char *text);
uint32_t strings_add_n(struct strings *s, const char *text, size_t size);

/* Borrowed until strings_free; "" for an index that does not exist. */
const char *strings_get(const struct strings *s, uint32_t index);

/* Limits memory to `max_bytes` (0: no limit); strings past it are dropped as if memory ran out. */
void strings_set_max_bytes(struct strings *s, size_t max_bytes);

size_t strings_size(const struct strings *s, uint32_t index); /* length of the string, which may contain NULs */

uint32_t strings_count(const struct strings *s);
size_t strings_bytes(const struct strings *s); /* memory held */
uint64_t strings_dropped(const struct strings *s);
