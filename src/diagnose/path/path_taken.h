/* Stolen and interrupt time inside a running span: the hypervisor ran something else, or the CPU served interrupts. */
#pragma once

#include "diagnose/path/path_segments.h"

struct flight_index;

/* Takes it out of the finished segments on a CPU. It is recorded for each time that a thread ran as a whole; where a
 * segment is a part of that, as much as must have been in it. After path_interrupts_take, which knows when an interrupt
 * was. -ENOMEM. */
int path_taken_find(const struct flight_index *index, struct path_segments *path);
