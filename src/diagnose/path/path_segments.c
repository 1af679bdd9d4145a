/* Collects segments so that each ends where the one after it begins; see path_segments.h. */
#include "diagnose/path/path_segments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENTS_MAX 8192 /* a request that waits for 2,000 small reads of a disk has that many */

void path_segments_start(struct path_segments *s, uint64_t begin_ns, uint64_t end_ns)
{
    *s = (struct path_segments){.begin_ns = begin_ns, .next_end_ns = end_ns > begin_ns ? end_ns : begin_ns};
}

void path_segments_clear(struct path_segments *s)
{
    free(s->items);
    path_evidence_clear(&s->evidence);
    *s = (struct path_segments){0};
}

static bool is_alike(const struct path_segment *a, const struct path_segment *b)
{
    return a->kind == b->kind && a->tid == b->tid && a->for_tid == b->for_tid && a->for_syscall == b->for_syscall &&
           a->for_object == b->for_object && a->owner == b->owner && a->owner_id == b->owner_id &&
           a->is_inferred == b->is_inferred && a->is_other_work == b->is_other_work && a->has_gil == b->has_gil &&
           a->syscall == b->syscall && a->object == b->object && a->socket == b->socket && a->call == b->call &&
           a->asks == b->asks && strcmp(a->reason, b->reason) == 0;
}

static bool make_room(struct path_segments *s)
{
    if (s->count < s->room)
        return true;
    const size_t room = s->room ? 2 * s->room : 32;
    struct path_segment *grown = reallocarray(s->items, room, sizeof(*grown));
    if (!grown) {
        s->is_failed = true;
        return false;
    }
    s->items = grown;
    s->room = room;
    return true;
}

void path_segments_add(struct path_segments *s, const struct path_segment *segment)
{
    struct path_segment added = *segment;
    added.start_ns = segment->start_ns > s->begin_ns ? segment->start_ns : s->begin_ns;
    added.end_ns = s->next_end_ns;
    added.reason = segment->reason ? segment->reason : "";
    if (added.start_ns >= added.end_ns)
        return;
    if (s->count == SEGMENTS_MAX - 1) { /* this one is the last, and stands for all before it */
        s->is_full = true;
        added = (struct path_segment){.start_ns = s->begin_ns,
                                      .end_ns = added.end_ns,
                                      .kind = REQUEST_PART_UNATTRIBUTED,
                                      .owner = REQUEST_OWNER_UNKNOWN,
                                      .syscall = -1,
                                      .reason = "the path has too many events to follow it further back"};
    }
    s->next_end_ns = added.start_ns;
    if (s->count && is_alike(&s->items[s->count - 1], &added)) {
        s->items[s->count - 1].start_ns = added.start_ns;
        s->items[s->count - 1].retransmissions += added.retransmissions;
        s->items[s->count - 1].retransmitted_ns += added.retransmitted_ns;
    } else if (make_room(s)) {
        s->items[s->count++] = added;
    }
}

int path_segments_finish(struct path_segments *s, const char *reason)
{
    path_segments_add(s, &(struct path_segment){.start_ns = s->begin_ns,
                                                .kind = REQUEST_PART_UNATTRIBUTED,
                                                .owner = REQUEST_OWNER_UNKNOWN,
                                                .syscall = -1,
                                                .reason = reason});
    if (s->is_failed)
        return -ENOMEM;
    for (size_t i = 0, k = s->count; i + 1 < k; i++) {
        const struct path_segment swapped = s->items[i];
        s->items[i] = s->items[--k];
        s->items[k] = swapped;
    }
    return 0;
}

size_t path_segments_since(const struct path_segments *s, uint64_t t_ns)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->items[middle].end_ns <= t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int path_segments_split(struct path_segments *s, size_t i, uint64_t at_ns)
{
    if (!make_room(s))
        return -ENOMEM;
    memmove(&s->items[i + 1], &s->items[i], (s->count - i) * sizeof(*s->items));
    s->count++;
    s->items[i].end_ns = s->items[i + 1].start_ns = at_ns;
    return 0;
}

int path_segments_cut_out(struct path_segments *s, size_t *i, uint64_t from_ns, uint64_t to_ns)
{
    if (to_ns < s->items[*i].end_ns && path_segments_split(s, *i, to_ns) < 0)
        return -ENOMEM;
    if (from_ns <= s->items[*i].start_ns)
        return 0;
    if (path_segments_split(s, *i, from_ns) < 0)
        return -ENOMEM;
    (*i)++;
    return 0;
}
