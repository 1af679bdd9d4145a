/* Interrupts and softirqs that ran for long on the CPU of a thread of the path: the recorder has those above
 * interrupts.threshold (RECORDER_INTERRUPT). Pure. */
#pragma once

#include "diagnose/path/path_segments.h"

struct flight_index;
struct path_evidence;

/* An interrupt that ran, during a segment of another kind, on the CPU that the segment's thread had or waited for. */
struct path_interrupt {
    uint64_t segment_ns;
    uint64_t ns;
    uint64_t what; /* RECORDER_INTERRUPT's object */
};

/* Cuts their time out of the finished segments on a CPU, as segments of their own with `is_interrupt` and `interrupt`.
 * -ENOMEM. */
int path_interrupts_take(const struct flight_index *index, struct path_segments *path);

/* The interrupts that ended during one path. */
struct path_interrupt_list {
    const struct recorder_record *items[256]; /* further ones are left out */
    size_t count;
};
void path_interrupts_list(const struct flight_index *index, const struct path_segments *path,
                          struct path_interrupt_list *ret);

/* Adds the interrupts of `list` that ran on the CPU of thread `tid` in [from_ns, to_ns), a part of segment `s`, to the
 * evidence `e`. Without memory they are left out. */
void path_interrupts_add(const struct path_interrupt_list *list, const struct path_segment *s, uint32_t tid,
                         uint64_t from_ns, uint64_t to_ns, struct path_evidence *e);
