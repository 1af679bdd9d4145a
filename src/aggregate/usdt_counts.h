/* Counts firings of a USDT probe by the text of one argument (--by) and by powers of two of another (--hist), for
 * `sonde probes watch`. The table is bounded: firings of further texts are counted in `others`. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USDT_COUNTS_MAX 10000 /* distinct texts */

struct usdt_count;

struct usdt_counts {
    struct usdt_count *all; /* private */
    bool has_buckets;       /* a histogram for each text */
    uint64_t others;        /* firings of texts past the bound */
};

void usdt_counts_clear(struct usdt_counts *c);

/* Counts one firing with this text and returns its entry. NULL: the table is full; the firing counts in `others`. */
struct usdt_count *usdt_counts_add(struct usdt_counts *c, const char *text, size_t size);
/* Adds the value of the --hist argument to the entry's histogram; two's complement when negative. */
void usdt_count_number(struct usdt_count *n, uint64_t value, bool negative);

/* Appends a table, highest count first. `by`: name of the counted argument; NULL: histogram only. */
void usdt_counts_put(struct usdt_counts *c, const char *by, struct buf *out);
/* Appends [{"value","count","histogram":[{"low","high","count"}]}]; "value" only with `by`, "histogram" only with
 * has_buckets. The texts must be JSON values. */
void usdt_counts_put_json(struct usdt_counts *c, const char *by, struct buf *out);
