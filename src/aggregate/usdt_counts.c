/* Counts USDT firings by argument value; see usdt_counts.h. Aggregation is done in user space: every firing arrives
 * individually. */
#include "aggregate/usdt_counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define BUCKETS     129 /* one per power of two and sign, and one for 0 in the middle */
#define ZERO_BUCKET 64
#define BAR_WIDTH   40

struct usdt_count {
    uint64_t count;
    uint64_t *buckets; /* NULL: no histogram */
    UT_hash_handle hh;
    char text[];
};

void usdt_counts_clear(struct usdt_counts *c)
{
    struct usdt_count *n, *next;
    HASH_ITER (hh, c->all, n, next) {
        HASH_DEL(c->all, n);
        free(n->buckets);
        free(n);
    }
}

/* Returns the entry of this text, or adds one. NULL: the table is full, or no memory. */
static struct usdt_count *get_count(struct usdt_counts *c, const char *text, size_t size)
{
    struct usdt_count *n;
    HASH_FIND(hh, c->all, text, size, n);
    if (n || HASH_COUNT(c->all) == USDT_COUNTS_MAX)
        return n;
    n = calloc(1, sizeof(*n) + size + 1);
    if (!n)
        return NULL;
    memcpy(n->text, text, size);
    if (c->has_buckets && !(n->buckets = calloc(BUCKETS, sizeof(*n->buckets)))) {
        free(n);
        return NULL;
    }
    HASH_ADD(hh, c->all, text, size, n);
    return n;
}

struct usdt_count *usdt_counts_add(struct usdt_counts *c, const char *text, size_t size)
{
    struct usdt_count *n = get_count(c, text, size);
    if (n)
        n->count++;
    else
        c->others++;
    return n;
}

/* Bucket of 0 is in the middle, that of [2^k, 2^(k+1)) is k + 1 places above it, negative values are as far below. */
void usdt_count_number(struct usdt_count *n, uint64_t value, bool negative)
{
    const uint64_t size = negative ? -value : value;
    const size_t bits = size ? 64 - (size_t)__builtin_clzll(size) : 0;
    n->buckets[negative ? ZERO_BUCKET - bits : ZERO_BUCKET + bits]++;
}

struct bucket {
    uint64_t low, high; /* absolute values, inclusive */
    const char *sign;
};

static struct bucket bucket_at(size_t i)
{
    const size_t bits = i < ZERO_BUCKET ? ZERO_BUCKET - i : i - ZERO_BUCKET;
    const uint64_t least = bits ? UINT64_C(1) << (bits - 1) : 0, most = bits ? least * 2 - 1 : 0;
    return i < ZERO_BUCKET ? (struct bucket){most, least, "-"} : (struct bucket){least, most, ""};
}

/* Range of non-empty buckets; false: all are empty. */
static bool find_span(const uint64_t *buckets, size_t *ret_first, size_t *ret_last)
{
    size_t first = 0, last = BUCKETS;
    while (first < BUCKETS && !buckets[first])
        first++;
    if (first == BUCKETS)
        return false;
    while (!buckets[last - 1])
        last--;
    *ret_first = first;
    *ret_last = last - 1;
    return true;
}

static void put_histogram(struct buf *out, const uint64_t *buckets)
{
    size_t first, last;
    uint64_t most = 1;
    if (!find_span(buckets, &first, &last))
        return;
    for (size_t i = first; i <= last; i++)
        most = buckets[i] > most ? buckets[i] : most;
    for (size_t i = first; i <= last; i++) {
        char range[64] = "0";
        const struct bucket b = bucket_at(i);
        if (i != ZERO_BUCKET)
            snprintf(range, sizeof(range), "%s%" PRIu64 " .. %s%" PRIu64, b.sign, b.low, b.sign, b.high);
        const int bar = (int)((double)buckets[i] * BAR_WIDTH / (double)most);
        buf_printf(out, "  %42s %10" PRIu64 " |%.*s\n", range, buckets[i], bar,
                   "########################################");
    }
}

static int compare_counts(struct usdt_count *a, struct usdt_count *b)
{
    return a->count != b->count ? a->count < b->count ? 1 : -1 : strcmp(a->text, b->text);
}

void usdt_counts_put(struct usdt_counts *c, const char *by, struct buf *out)
{
    HASH_SORT(c->all, compare_counts);
    if (by)
        buf_printf(out, "%10s %s\n", "COUNT", by);
    for (const struct usdt_count *n = c->all; n; n = n->hh.next) {
        if (by)
            buf_printf(out, "%10" PRIu64 " %s\n", n->count, n->text);
        if (n->buckets)
            put_histogram(out, n->buckets);
    }
}

static void put_histogram_json(struct buf *out, const uint64_t *buckets)
{
    const char *between = "";
    buf_puts(out, ",\"histogram\":[");
    for (size_t i = 0; i < BUCKETS; i++) {
        const struct bucket b = bucket_at(i);
        if (!buckets[i])
            continue;
        buf_printf(out, "%s{\"low\":%s%" PRIu64 ",\"high\":%s%" PRIu64 ",\"count\":%" PRIu64 "}", between, b.sign,
                   b.low, b.sign, b.high, buckets[i]);
        between = ",";
    }
    buf_putc(out, ']');
}

void usdt_counts_put_json(struct usdt_counts *c, const char *by, struct buf *out)
{
    const char *between = "";
    HASH_SORT(c->all, compare_counts);
    buf_putc(out, '[');
    for (const struct usdt_count *n = c->all; n; n = n->hh.next) {
        buf_printf(out, "%s{", between);
        if (by)
            buf_printf(out, "\"value\":%s,", n->text);
        buf_printf(out, "\"count\":%" PRIu64, n->count);
        if (n->buckets)
            put_histogram_json(out, n->buckets);
        buf_putc(out, '}');
        between = ",\n";
    }
    buf_putc(out, ']');
}
