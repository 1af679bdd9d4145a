/* Samples cpu-clock events with perf's call chains; see kernel_samples.h. */
#include "sources/bpf_stats/kernel_samples.h"

#include "base/clock.h"
#include "sources/attach/perf_events.h"

#include <errno.h>
#include <string.h>

#define RING_BYTES (1u << 20) /* per CPU: 4 s at 1000 Hz and 30 addresses each */
#define DEPTH_MAX  127        /* the kernel's default limit */

struct kernel_samples {
    struct perf_events *events;
    uint64_t period_ns, lost, throttled;
    kernel_samples_take take_record; /* set during a read, as is context */
    void *context;
};

int kernel_samples_new(uint32_t hz, struct kernel_samples **ret)
{
    _cleanup_(kernel_samples_freep) struct kernel_samples *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->period_ns = 1000000000ull / hz;
    const struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = s->period_ns,
        .sample_type = PERF_SAMPLE_CALLCHAIN,
        .exclude_user = 1,
        .exclude_callchain_user = 1,
        .watermark = 1, /* the reader polls */
        .wakeup_watermark = RING_BYTES / 2,
    };
    int r = perf_events_open(&attr, -1, RING_BYTES, &s->events);
    if (r == 0)
        r = perf_events_enable(s->events);
    if (r < 0)
        return r;
    *ret = take_ptr(s);
    return 0;
}

void kernel_samples_free(struct kernel_samples *s)
{
    if (!s)
        return;
    perf_events_free(s->events);
    free(s);
}

/* PERF_SAMPLE_CALLCHAIN: a count, then addresses interspersed with context markers (PERF_CONTEXT_*). */
static void take_sample(struct kernel_samples *s, const struct perf_event_header *record)
{
    uint64_t addresses[DEPTH_MAX], in_record, address;
    size_t count = 0;
    const char *at = (const char *)(record + 1);
    if (record->size < sizeof(*record) + sizeof(in_record))
        return;
    memcpy(&in_record, at, sizeof(in_record));
    const size_t room = (record->size - sizeof(*record) - sizeof(in_record)) / sizeof(address);
    for (size_t i = 0; i < room && i < in_record && count < DEPTH_MAX; i++) {
        memcpy(&address, at + sizeof(in_record) + i * sizeof(address), sizeof(address));
        if (address < PERF_CONTEXT_MAX)
            addresses[count++] = address;
    }
    if (count)
        s->take_record(s->context, addresses, count);
}

static int take_record(void *context, unsigned cpu, const struct perf_event_header *record)
{
    struct kernel_samples *s = context;
    uint64_t lost;
    (void)cpu;
    switch (record->type) {
    case PERF_RECORD_SAMPLE:
        take_sample(s, record);
        break;
    case PERF_RECORD_LOST: /* an ID, then the number lost */
        if (record->size >= sizeof(*record) + 2 * sizeof(lost)) {
            memcpy(&lost, (const char *)(record + 1) + sizeof(lost), sizeof(lost));
            s->lost += lost;
        }
        break;
    case PERF_RECORD_THROTTLE:
        s->throttled++;
        break;
    default:
        break;
    }
    return 0;
}

int kernel_samples_read(struct kernel_samples *s, kernel_samples_take taker, void *context)
{
    s->take_record = taker;
    s->context = context;
    int r = perf_events_read(s->events, take_record, s);
    if (r == 0)
        r = perf_events_follow(s->events, clock_monotonic_ns());
    return r < 0 ? r : 0;
}

uint64_t kernel_samples_period_ns(const struct kernel_samples *s)
{
    return s->period_ns;
}

uint64_t kernel_samples_lost(const struct kernel_samples *s)
{
    return s->lost;
}

uint64_t kernel_samples_throttled(const struct kernel_samples *s)
{
    return s->throttled;
}
