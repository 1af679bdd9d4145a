/* Neighbours in one thread become one lane, then short lanes are added to the one before. See request_lanes.h. */
#include "diagnose/request_lanes.h"

#define SHORT_SHARE 100 /* of the request */

static struct request_lane lane_of(const struct request *r, size_t i)
{
    const struct request_segment *s = &r->segments[i];
    struct request_lane lane = {.start_ns = s->start_ns,
                                .duration_ns = s->duration_ns,
                                .tid = s->tid,
                                .pid = s->pid,
                                .thread = s->thread,
                                .process = s->process,
                                .first = i,
                                .count = 1};
    lane.held_ns = s->kind == REQUEST_PART_LOCK ? s->duration_ns : 0;
    request_segment_sum(s, lane.sums_ns);
    return lane;
}

/* Without locks, whose segments name the holder. */
static uint64_t own_ns(const struct request_lane *lane)
{
    return lane->duration_ns - lane->held_ns;
}

/* Adds lane `i + 1` to lane `i`. The thread of the longer lane remains. */
static void join_next(struct request_lane *lanes, size_t *count, size_t i)
{
    struct request_lane *into = &lanes[i];
    const struct request_lane *from = &lanes[i + 1];
    if (own_ns(from) > own_ns(into)) {
        into->tid = from->tid;
        into->pid = from->pid;
        into->thread = from->thread;
        into->process = from->process;
    }
    into->duration_ns += from->duration_ns;
    into->held_ns += from->held_ns;
    into->count += from->count;
    for (int kind = 0; kind < REQUEST_PART_COUNT; kind++)
        into->sums_ns[kind] += from->sums_ns[kind];
    for (size_t k = i + 1; k + 1 < *count; k++)
        lanes[k] = lanes[k + 1];
    (*count)--;
}

/* A lock is waited for in the thread before it, and names its holder. */
static bool is_same_thread(const struct request_lane *a, const struct request_lane *b)
{
    return a->tid == b->tid || own_ns(b) == 0;
}

static void join_neighbours(struct request_lane *lanes, size_t *count)
{
    for (size_t i = 0; i + 1 < *count;)
        if (is_same_thread(&lanes[i], &lanes[i + 1]))
            join_next(lanes, count, i);
        else
            i++;
}

static size_t shortest(const struct request_lane *lanes, size_t count)
{
    size_t found = 0;
    for (size_t i = 1; i < count; i++)
        if (lanes[i].duration_ns < lanes[found].duration_ns)
            found = i;
    return found;
}

size_t request_lanes(const struct request *r, struct request_lane ret[REQUEST_LANES_MAX])
{
    struct request_lane lanes[REQUEST_SEGMENTS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < r->segment_count && i < REQUEST_SEGMENTS_MAX; i++)
        lanes[count++] = lane_of(r, i);
    join_neighbours(lanes, &count);
    while (count > 1) {
        const size_t i = shortest(lanes, count);
        if (count <= REQUEST_LANES_MAX && lanes[i].duration_ns >= r->duration_ns / SHORT_SHARE)
            break;
        join_next(lanes, &count, i ? i - 1 : 0);
        join_neighbours(lanes, &count);
    }
    for (size_t i = 0; i < count; i++)
        ret[i] = lanes[i];
    return count;
}
