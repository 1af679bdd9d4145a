/* Locks whose owner the recorder knows when a thread begins to wait (RECORDER_HELD): CPython's GIL. Pure: reads only
 * the window. */
#pragma once

#include "base/cleanup.h"
#include "model/flight_window.h"

#include <linux/types.h>

#include "probes/recorder/recorder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held_locks;

/* `window` is borrowed until held_locks_free. -ENOMEM. */
int held_locks_new(const struct flight_window *window, struct held_locks **ret);
void held_locks_free(struct held_locks *locks);
DEFINE_FREEP(held_locks)

/* Whether this futex word is a part of such a lock of process `pid`. */
bool held_locks_have_word(const struct held_locks *locks, uint32_t pid, uint64_t word);

/* The last record before `t` of the lock that this word is a part of; NULL: none. */
const struct recorder_record *held_locks_before(const struct held_locks *locks, uint32_t pid, uint64_t word,
                                                uint64_t t_ns);
