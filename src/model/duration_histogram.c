/* A histogram of durations; see duration_histogram.h. */
#include "model/duration_histogram.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#define WIDTH_BITS 7
#define IN_ROW     (1 << WIDTH_BITS)
#define ROWS       (64 - WIDTH_BITS + 1) /* row 0: 0 to 127, one bucket each; then one row for each power of two */

struct duration_histogram {
    uint64_t count;
    int64_t min, max;
    uint64_t *rows[2][ROWS]; /* [1]: negative durations, by magnitude */
};

int duration_histogram_new(struct duration_histogram **ret)
{
    struct duration_histogram *h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    *ret = h;
    return 0;
}

void duration_histogram_free(struct duration_histogram *h)
{
    if (!h)
        return;
    for (int sign = 0; sign < 2; sign++)
        for (int row = 0; row < ROWS; row++)
            free(h->rows[sign][row]);
    free(h);
}

int duration_histogram_add(struct duration_histogram *h, int64_t duration_ns)
{
    int sign = duration_ns < 0;
    uint64_t magnitude = sign ? 0 - (uint64_t)duration_ns : (uint64_t)duration_ns;
    int shift = magnitude < IN_ROW ? 0 : 63 - __builtin_clzll(magnitude) - WIDTH_BITS;
    int row = magnitude < IN_ROW ? 0 : shift + 1;
    uint64_t **buckets = &h->rows[sign][row];
    if (!*buckets && !(*buckets = calloc(IN_ROW, sizeof(**buckets))))
        return -ENOMEM;
    (*buckets)[(magnitude >> shift) & (IN_ROW - 1)]++;
    if (h->count == 0 || duration_ns < h->min)
        h->min = duration_ns;
    if (h->count == 0 || duration_ns > h->max)
        h->max = duration_ns;
    h->count++;
    return 0;
}

/* The middle of a bucket. */
static int64_t value_of(int sign, int row, int bucket)
{
    uint64_t magnitude = (uint64_t)bucket;
    if (row > 0) {
        int shift = row - 1;
        magnitude = ((uint64_t)(IN_ROW + bucket) << shift) + (shift ? 1ull << (shift - 1) : 0);
    }
    if (magnitude > INT64_MAX)
        magnitude = INT64_MAX;
    return sign ? -(int64_t)magnitude : (int64_t)magnitude;
}

static int64_t find_rank(const struct duration_histogram *h, uint64_t rank)
{
    uint64_t before = 0;
    for (int step = 0; step < 2 * ROWS; step++) { /* from the most negative upwards */
        int sign = step < ROWS, row = sign ? ROWS - 1 - step : step - ROWS;
        const uint64_t *buckets = h->rows[sign][row];
        for (int i = 0; buckets && i < IN_ROW; i++) {
            int bucket = sign ? IN_ROW - 1 - i : i;
            before += buckets[bucket];
            if (before >= rank)
                return value_of(sign, row, bucket);
        }
    }
    return h->max;
}

int64_t duration_histogram_percentile(const struct duration_histogram *h, double percentile)
{
    assert(percentile >= 0 && percentile <= 100);
    if (h->count == 0)
        return 0;
    double exact = ceil(percentile * (double)h->count / 100);
    uint64_t rank = exact < 1 ? 1 : exact >= (double)h->count ? h->count : (uint64_t)exact;
    int64_t value = find_rank(h, rank);
    return rank == h->count || value > h->max ? h->max : rank == 1 || value < h->min ? h->min : value;
}
