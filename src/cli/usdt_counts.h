/* Firings of a native probe counted by a text, and by the power of two of a number: what `sonde probes watch
 * --by --hist` shows at its end. Bounded; what finds no room is counted as `others`. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NATIVE_COUNTS_MAX 10000 /* texts that are counted apart */

struct usdt_count;

struct usdt_counts {
    struct usdt_count *all; /* private */
    bool has_buckets;       /* a histogram for each text */
    uint64_t others;        /* firings of texts past the bound */
};

void usdt_counts_clear(struct usdt_counts *c);

/* One firing more with this text. NULL: there is no room. */
struct usdt_count *usdt_counts_add(struct usdt_counts *c, const char *text, size_t size);
/* Its number, in two's complement where it is negative. */
void usdt_count_number(struct usdt_count *n, uint64_t value, bool negative);

/* What fired most first; `by` is the text's name, NULL: none was asked for. */
void usdt_counts_put(struct usdt_counts *c, const char *by, struct buf *out);
/* [{"value","count","histogram":[{"low","high","count"}]}], the members of what was not asked for left out;
 * texts are values in JSON already. */
void usdt_counts_put_json(struct usdt_counts *c, const char *by, struct buf *out);
