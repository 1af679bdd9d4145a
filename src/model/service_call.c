/* See service_call.h. */
#include "model/service_call.h"

#include <string.h>

#define FIRST_BITS 14 /* below 2^16 ns, all are in bucket 0; above it, four buckets for each power of two */

uint64_t service_call_duration_start(uint32_t bucket)
{
    return bucket ? (uint64_t)(4 + (bucket - 1) % 4) << (FIRST_BITS + (bucket - 1) / 4) : 0;
}

uint32_t service_call_duration_bucket(uint64_t ns)
{
    uint32_t bucket = 0;
    while (bucket + 1 < SERVICE_CALL_DURATIONS && service_call_duration_start(bucket + 1) <= ns)
        bucket++;
    return bucket;
}

void service_call_sums_add(struct service_call_sums *to, const struct service_call_sums *from)
{
    to->failed += from->failed;
    to->wait_ns += from->wait_ns;
    for (size_t i = 0; i < SERVICE_CALL_DURATIONS; i++)
        to->durations[i] += from->durations[i];
}

uint64_t service_call_sums_calls(const struct service_call_sums *s)
{
    uint64_t calls = 0;
    for (size_t i = 0; i < SERVICE_CALL_DURATIONS; i++)
        calls += s->durations[i];
    return calls;
}

uint64_t service_call_sums_percentile(const struct service_call_sums *s, double percentile)
{
    const double rank = percentile / 100 * (double)service_call_sums_calls(s);
    double before = 0;
    for (uint32_t i = 0; i < SERVICE_CALL_DURATIONS; i++) {
        const double in = (double)s->durations[i];
        const double start = (double)service_call_duration_start(i), end = (double)service_call_duration_start(i + 1);
        if (in > 0 && before + in >= rank)
            return (uint64_t)(start + (end - start) * (rank - before) / in);
        before += in;
    }
    return 0;
}

/* The name is whole, or all but its port: "python" is "python :8000". */
static bool is_named(const char *name, const char *wanted)
{
    const size_t size = strlen(wanted);
    return strncmp(name, wanted, size) == 0 && (!name[size] || strncmp(name + size, " :", 2) == 0);
}

bool service_call_has(const struct service_call *call, const char *wanted)
{
    return is_named(call->client, wanted) || is_named(call->server, wanted) || strcmp(call->address, wanted) == 0;
}
