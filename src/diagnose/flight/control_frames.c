/* One pass backwards over the window: a read is seen before the arrivals that it returned. See control_frames.h. */
#include "diagnose/flight/control_frames.h"

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* A RECORDER_CONTROL. Of the first one of each socket: whether the next read of the socket had only control frames, and
 * TCP's copied_seq after it. */
struct control {
    uint64_t socket, time_ns;
    uint32_t tid, copied_seq;
    bool is_read_next;
};

static int compare_controls(const void *a, const void *b)
{
    const struct control *x = a, *y = b;
    if (x->socket != y->socket)
        return x->socket < y->socket ? -1 : 1;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* The first control of this socket at `time_ns` or later; NULL: there is none. */
static struct control *control_since(struct control *controls, size_t count, uint64_t socket, uint64_t time_ns)
{
    const struct control key = {.socket = socket, .time_ns = time_ns};
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_controls(&controls[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && controls[low].socket == socket ? &controls[low] : NULL;
}

static bool is_about_socket(const struct recorder_record *r)
{
    return r->kind == RECORDER_SEND || r->kind == RECORDER_RECEIVE || r->kind == RECORDER_READY;
}

/* Whether the record is of control frames. The records after it have been passed. */
static bool is_removed(struct control *controls, size_t count, const struct recorder_record *r)
{
    struct control *first = is_about_socket(r) ? control_since(controls, count, r->object, 0) : NULL;
    if (!first)
        return r->kind == RECORDER_CONTROL;
    if (r->kind == RECORDER_READY) /* the read may have left the last bytes that had arrived by then */
        return first->is_read_next && r->flags & RECORDER_TCP &&
               (int32_t)(recorder_high(r->value) - first->copied_seq) <= 0;
    const struct control *control = control_since(controls, count, r->object, r->time_ns);
    const bool is_control = control && control->time_ns == r->time_ns && control->tid == r->tid;
    if (r->kind == RECORDER_RECEIVE) {
        first->is_read_next = is_control;
        first->copied_seq = recorder_high(r->value);
    }
    return is_control;
}

static size_t count_controls(const struct flight_window *window)
{
    size_t count = 0;
    for (size_t i = 0; i < window->count; i++)
        count += window->records[i].kind == RECORDER_CONTROL;
    return count;
}

bool control_frames_are_in(const struct flight_window *window)
{
    return count_controls(window) > 0;
}

int control_frames_remove(const struct flight_window *window, struct flight_window *ret,
                          struct recorder_record **ret_records)
{
    const size_t count = count_controls(window);
    _cleanup_free_ struct control *controls = calloc(count + 1, sizeof(*controls));
    struct recorder_record *records = calloc(window->count + 1, sizeof(*records));
    if (!controls || !records) {
        free(records);
        return -ENOMEM;
    }
    for (size_t i = 0, n = 0; i < window->count; i++)
        if (window->records[i].kind == RECORDER_CONTROL)
            controls[n++] = (struct control){.socket = window->records[i].object,
                                             .time_ns = window->records[i].time_ns,
                                             .tid = window->records[i].tid};
    qsort(controls, count, sizeof(*controls), compare_controls);
    size_t first = window->count;
    for (size_t i = window->count; i-- > 0;)
        if (!is_removed(controls, count, &window->records[i]))
            records[--first] = window->records[i];
    *ret = (struct flight_window){
        .records = records + first, .count = window->count - first, .complete_from_ns = window->complete_from_ns};
    *ret_records = records;
    return 0;
}
