/* The futex words that a thread waited for, and those that it woke others by, in a window of the flight recorder: a
 * word of both kinds belongs to a lock, which the thread takes and releases. */
#pragma once

#include "model/flight_window.h"

#include <stdbool.h>
#include <stdint.h>

#define FUTEX_WORDS_NEAR 48 /* the words of one lock or condition variable are at most this far from each other */

struct futex_words;

/* The window is not used afterwards. The caller frees `*ret`. -ENOMEM. */
int futex_words_new(const struct flight_window *window, struct futex_words **ret);
void futex_words_free(struct futex_words *words);

/* Whether the thread both waited for and woke others by this word or words near it, except hand-shakes of condition
 * variables: there the signaller waits for the signalled threads. */
bool futex_words_are_lock(const struct futex_words *words, uint32_t tid, uint64_t word);
