/* Bisects each ring by time, copies the wanted records, and drops records that the programs may have overwritten. See
 * recorder_rings.h. */
#include "sources/tables/recorder_rings.h"

#include "base/cleanup.h"

#include "probes/recorder/recorder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST_LOOKED_AT 4 /* one of them may be older than its neighbours */
#define MARGIN           8 /* so that the oldest records are not overwritten while their times are read */
#define ATTEMPTS         16

typedef __u64 __attribute__((may_alias)) word;

/* Records first .. end - 1 of a ring. */
struct ring_range {
    uint64_t first, end;
};

struct copied {
    struct recorder_record *records;
    size_t count;
};

/* The records of one ring, by time, that are still to be merged. */
struct run {
    const struct recorder_record *next, *end;
};

static uint64_t count_of(const struct recorder_ring *ring)
{
    return __atomic_load_n(ring->count, __ATOMIC_ACQUIRE);
}

static const struct recorder_record *place_of(const struct recorder_ring *ring, uint64_t number)
{
    return &ring->records[number & (ring->size - 1)];
}

static struct ring_range present(const struct recorder_ring *ring)
{
    const uint64_t count = count_of(ring);
    return (struct ring_range){count > ring->size ? count - ring->size : 0, count};
}

/* False: it was never written, or is being written; see recorder.bpf.h. */
static bool copy_record(const struct recorder_record *from, struct recorder_record *to)
{
    const word *words = (const word *)from;
    __u64 copy[sizeof(*from) / sizeof(word)];
    copy[0] = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
    for (size_t i = 1; i < array_size(copy); i++)
        copy[i] = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
    const __u64 time_ns = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
    memcpy(to, copy, sizeof(*to));
    return time_ns && time_ns == copy[0] && to->kind != RECORDER_NONE;
}

static uint64_t time_of(const struct recorder_ring *ring, uint64_t number)
{
    return __atomic_load_n(&place_of(ring, number)->time_ns, __ATOMIC_ACQUIRE);
}

/* The time of the ring's oldest records. The newest of a few: a place may still have its record of one round before. 0:
 * none is readable. Too late a time if the ring is overwritten faster than it can be read. */
static uint64_t oldest_of(const struct recorder_ring *ring)
{
    const uint64_t margin = ring->size / 4 < MARGIN ? ring->size / 4 : MARGIN;
    uint64_t newest = 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        const struct ring_range range = present(ring);
        const uint64_t first = range.first ? range.first + margin : 0;
        newest = 0;
        for (uint64_t n = first; n < range.end && n < first + OLDEST_LOOKED_AT; n++) {
            const uint64_t time_ns = time_of(ring, n);
            newest = time_ns > newest ? time_ns : newest;
        }
        if (count_of(ring) <= first + ring->size)
            break;
    }
    return newest;
}

uint64_t recorder_ring_complete_from(const struct recorder_ring *ring, uint64_t since_ns)
{
    const uint64_t oldest_ns = count_of(ring) > ring->size ? oldest_of(ring) : 0;
    return oldest_ns > since_ns ? oldest_ns : since_ns;
}

/* The first record of the range that is not older than `time_ns`, if times ascend. `oldest_ns`: an older slot holds a
 * record of the previous round, or no record, and is skipped. */
static uint64_t bisect(const struct recorder_ring *ring, struct ring_range range, uint64_t oldest_ns, uint64_t time_ns)
{
    while (range.first < range.end) {
        const uint64_t middle = range.first + (range.end - range.first) / 2;
        uint64_t valid = middle;
        while (valid < range.end && time_of(ring, valid) < oldest_ns)
            valid++;
        if (valid < range.end && time_of(ring, valid) < time_ns)
            range.first = valid + 1;
        else
            range.end = middle;
    }
    return range.first;
}

static uint64_t sooner(uint64_t time_ns, uint64_t by_ns)
{
    return time_ns > by_ns ? time_ns - by_ns : 0;
}

static uint64_t later(uint64_t time_ns, uint64_t by_ns)
{
    return time_ns < UINT64_MAX - by_ns ? time_ns + by_ns : UINT64_MAX;
}

/* Contains all records with times of from_ns to to_ns, and some others, if no record comes more than `slack_ns` after
 * a later one. */
static struct ring_range find_range(const struct recorder_ring *ring, uint64_t from_ns, uint64_t to_ns,
                                    uint64_t slack_ns)
{
    const struct ring_range all = present(ring);
    const uint64_t oldest_ns = sooner(oldest_of(ring), ring->slack_ns) ?: 1;
    const uint64_t first = bisect(ring, all, oldest_ns, sooner(from_ns, slack_ns));
    const uint64_t after_ns = later(later(to_ns, slack_ns), 1);
    uint64_t end = bisect(ring, (struct ring_range){first, all.end}, oldest_ns, after_ns);
    while (end < all.end && time_of(ring, end) < after_ns) /* those that bisect skipped */
        end++;
    return (struct ring_range){first, end};
}

static size_t count_since(const struct recorder_ring *rings, const struct ring_range *ranges, size_t ring_count,
                          uint64_t time_ns)
{
    size_t sum = 0;
    for (size_t i = 0; i < ring_count; i++)
        sum += ranges[i].end - bisect(&rings[i], ranges[i], 1, time_ns);
    return sum;
}

/* The earliest time from from_ns on since which the rings have about `max_records` up to to_ns, or fewer. `ranges`:
 * room for one a ring. */
static uint64_t find_cut(const struct recorder_ring *rings, struct ring_range *ranges, size_t ring_count,
                         uint64_t from_ns, uint64_t to_ns, size_t max_records)
{
    uint64_t low = from_ns, high = to_ns;
    for (size_t i = 0; i < ring_count; i++)
        ranges[i] = find_range(&rings[i], from_ns, to_ns, 0);
    if (count_since(rings, ranges, ring_count, from_ns) <= max_records)
        return from_ns;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (count_since(rings, ranges, ring_count, middle) > max_records)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Appends the records of the range with times of from_ns to to_ns. */
static void copy_range(const struct recorder_ring *ring, struct ring_range range, uint64_t from_ns, uint64_t to_ns,
                       struct copied *to)
{
    struct recorder_record *raw = to->records + to->count;
    const size_t count = range.end - range.first;
    for (size_t i = 0; i < count; i++)
        if (!copy_record(place_of(ring, range.first + i), &raw[i]))
            raw[i].time_ns = 0;
    const uint64_t first = present(ring).first; /* those before have been overwritten, maybe while they were copied */
    for (size_t i = first > range.first ? first - range.first : 0; i < count; i++)
        if (raw[i].time_ns && raw[i].time_ns >= from_ns && raw[i].time_ns <= to_ns)
            to->records[to->count++] = raw[i];
}

/* Orders the records of one ring; few of them come after a later one. */
static void order_run(struct recorder_record *run, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (run[i].time_ns >= run[i - 1].time_ns)
            continue;
        const struct recorder_record late = run[i];
        size_t at = i;
        for (; at > 0 && run[at - 1].time_ns > late.time_ns; at--)
            run[at] = run[at - 1];
        run[at] = late;
    }
}

/* Of records of one time, the record of the earlier ring comes first. */
static bool is_before(const struct run *a, const struct run *b)
{
    return a->next->time_ns != b->next->time_ns ? a->next->time_ns < b->next->time_ns : a->next < b->next;
}

/* Restores the heap below `at`: the run with the earliest record is the first. */
static void sift_down(struct run *heap, size_t count, size_t at)
{
    const struct run moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && is_before(&heap[child + 1], &heap[child]);
        if (!is_before(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* `heap`: the runs, none of them empty; none is left. */
static void merge_runs(struct run *heap, size_t count, struct recorder_record *to)
{
    for (size_t i = count / 2; i-- > 0;)
        sift_down(heap, count, i);
    while (count) {
        *to++ = *heap[0].next++;
        if (heap[0].next == heap[0].end)
            heap[0] = heap[--count];
        if (count)
            sift_down(heap, count, 0);
    }
}

static uint64_t horizon_of(const struct recorder_ring *rings, size_t ring_count, uint64_t since_ns)
{
    uint64_t horizon_ns = since_ns;
    for (size_t i = 0; i < ring_count; i++) {
        const uint64_t complete_ns = recorder_ring_complete_from(&rings[i], since_ns);
        horizon_ns = complete_ns > horizon_ns ? complete_ns : horizon_ns;
    }
    return horizon_ns;
}

/* Drops the oldest records beyond `max_records`. */
static void trim(struct copied *all, size_t max_records, struct flight_window *window)
{
    const size_t dropped = all->count > max_records ? all->count - max_records : 0;
    if (dropped == 0)
        return;
    window->complete_from_ns = max_records ? all->records[dropped].time_ns : UINT64_MAX;
    all->count = max_records;
    memmove(all->records, all->records + dropped, max_records * sizeof(*all->records));
}

/* Copies the ranges, and merges them by time. -ENOMEM. */
static int copy_ranges(const struct recorder_ring *rings, const struct ring_range *ranges, size_t ring_count,
                       uint64_t from_ns, uint64_t to_ns, struct copied *ret)
{
    size_t room = 1, run_count = 0;
    for (size_t i = 0; i < ring_count; i++)
        room += ranges[i].end - ranges[i].first;
    _cleanup_free_ struct recorder_record *copies = calloc(room, sizeof(*copies));
    _cleanup_free_ struct run *runs = calloc(ring_count + 1, sizeof(*runs));
    struct copied all = {.records = copies};
    *ret = (struct copied){.records = calloc(room, sizeof(*ret->records))};
    if (!copies || !runs || !ret->records) {
        free(ret->records);
        return -ENOMEM;
    }
    for (size_t i = 0; i < ring_count; i++) {
        const size_t first = all.count;
        copy_range(&rings[i], ranges[i], from_ns, to_ns, &all);
        if (all.count == first)
            continue;
        order_run(copies + first, all.count - first);
        runs[run_count++] = (struct run){copies + first, copies + all.count};
    }
    merge_runs(runs, run_count, ret->records);
    ret->count = all.count;
    return 0;
}

int recorder_rings_window(const struct recorder_ring *rings, size_t ring_count, uint64_t since_ns, uint64_t from_ns,
                          uint64_t to_ns, size_t max_records, struct flight_window *ret, uint64_t *ret_horizon_ns)
{
    _cleanup_free_ struct ring_range *ranges = calloc(ring_count ? ring_count : 1, sizeof(*ranges));
    struct copied all;
    if (!ranges)
        return -ENOMEM;
    const uint64_t cut_ns = find_cut(rings, ranges, ring_count, from_ns, to_ns, max_records);
    for (size_t i = 0; i < ring_count; i++)
        ranges[i] = find_range(&rings[i], cut_ns, to_ns, rings[i].slack_ns);
    int r = copy_ranges(rings, ranges, ring_count, cut_ns, to_ns, &all);
    if (r < 0)
        return r;
    *ret_horizon_ns = horizon_of(rings, ring_count, since_ns); /* after copying: overwritten records are before it */
    *ret = (struct flight_window){.complete_from_ns = *ret_horizon_ns};
    if (cut_ns > from_ns && cut_ns > ret->complete_from_ns)
        ret->complete_from_ns = cut_ns;
    trim(&all, max_records, ret);
    ret->records = all.records;
    ret->count = all.count;
    return 0;
}
