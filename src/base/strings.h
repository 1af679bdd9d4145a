/* A table of distinct strings: each is stored once and named by a small number. 0 is always the empty string, as in OTLP's and
 * pprof's string tables. Equality is by bytes, never by hash alone. Not thread-safe. */
#pragma once

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct strings;

int strings_new(struct strings **ret);
void strings_free(struct strings *s);
DEFINE_FREEP(strings)

/* The number of `text` (added if new; NULL counts as ""). On out of memory: 0, and strings_dropped() counts it. */
uint32_t strings_add(struct strings *s, const char *text);
uint32_t strings_add_n(struct strings *s, const char *text, size_t size);

/* Borrowed until strings_free; "" for a number that does not exist. */
const char *strings_get(const struct strings *s, uint32_t index);

uint32_t strings_count(const struct strings *s);
size_t strings_bytes(const struct strings *s); /* memory held */
uint64_t strings_dropped(const struct strings *s);
