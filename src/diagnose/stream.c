/* See stream.h. */
#include "diagnose/stream.h"

#include <errno.h>

/* The time of each kind until `first_ns` after the start of the path, which is not 0. */
static void break_down(const struct path_segments *path, uint64_t first_ns, uint64_t sums_ns[REQUEST_PART_COUNT])
{
    const uint64_t cut_ns = path->begin_ns + first_ns;
    uint64_t left_ns = first_ns;
    for (size_t i = 0; i < path->count && path->items[i].start_ns < cut_ns; i++) {
        const struct path_segment *s = &path->items[i];
        const uint64_t ns = (s->end_ns < cut_ns ? s->end_ns : cut_ns) - s->start_ns;
        sums_ns[s->kind] += ns;
        left_ns -= ns;
    }
    sums_ns[REQUEST_PART_UNATTRIBUTED] += left_ns; /* the record of the request is older than the stream's */
}

/* As of a request without a path: all that is known is how long it was unread. */
static void break_down_unread(const struct request *r, uint64_t first_ns, uint64_t sums_ns[REQUEST_PART_COUNT])
{
    const uint64_t unread_ns = request_kind_ns(r, REQUEST_PART_UNREAD);
    sums_ns[REQUEST_PART_UNREAD] = unread_ns < first_ns ? unread_ns : first_ns;
    sums_ns[REQUEST_PART_UNATTRIBUTED] = first_ns - sums_ns[REQUEST_PART_UNREAD];
}

int diagnose_stream(const struct request_stream_record *record, const struct path_segments *path, struct request **r)
{
    if (!request_stream_record_is_sound(record))
        return -EBADMSG;
    struct request changed = **r, *copy;
    changed.model = record->model;
    if (record->flags & REQUEST_STREAM_EVENTS)
        changed.stream = (struct request_stream){
            .is_stream = true,
            .is_late = record->flags & REQUEST_STREAM_LATE,
            .is_incomplete = record->flags & REQUEST_STREAM_UNREAD,
            .first_byte_ns = record->first_byte_ns,
            .first_ns = record->first_ns,
            .last_ns = record->last_ns,
            .chunks = record->chunks,
            .tokens = record->tokens,
            .usage = record->usage,
        };
    if (changed.stream.first_ns && path && path->count)
        break_down(path, changed.stream.first_ns, changed.first_part_ns);
    else if (changed.stream.first_ns)
        break_down_unread(*r, changed.stream.first_ns, changed.first_part_ns);
    const int error = request_copy(&changed, &copy);
    if (error < 0)
        return error;
    request_free(*r);
    *r = copy;
    return 0;
}
