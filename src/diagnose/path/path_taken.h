/* Stolen and interrupt time inside a running span: the hypervisor ran something else, or the CPU served interrupts. */
#pragma once

#include "diagnose/path/path_segments.h"

struct flight_index;

/* Cuts it out of the finished segments on a CPU. The recorder has one sum for each span in which a thread ran. If a
 * segment is only a part of the span, the time that must have been in this part is cut out. To be called after
 * path_interrupts_take, which knows the times of interrupts. -ENOMEM. */
int path_taken_find(const struct flight_index *index, struct path_segments *path);
