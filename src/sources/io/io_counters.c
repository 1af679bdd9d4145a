/* Sums of counters; see io_counters.h. */
#include "sources/io/io_counters.h"

#include "base/saturated.h"

#include <stddef.h>

void io_counters_add(struct io_counters *to, const struct io_counters *from)
{
    to->bytes = saturated_sum(to->bytes, from->bytes);
    to->missed = saturated_sum(to->missed, from->missed);
    to->errors = saturated_sum(to->errors, from->errors);
    to->untimed = saturated_sum(to->untimed, from->untimed);
    to->sum_ns = saturated_sum(to->sum_ns, from->sum_ns);
    for (size_t i = 0; i < IO_BUCKETS; i++)
        to->durations[i] = saturated_sum(to->durations[i], from->durations[i]);
    for (size_t i = 0; i < IO_SIZES; i++)
        to->sizes[i] = saturated_sum(to->sizes[i], from->sizes[i]);
}

uint64_t io_counters_operations(const struct io_counters *c)
{
    uint64_t count = c->untimed;
    for (size_t i = 0; i < IO_BUCKETS; i++)
        count = saturated_sum(count, c->durations[i]);
    return count;
}
