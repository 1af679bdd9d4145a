/* The stack of who woke a thread, upside down above the waiter's: from the wait up to where the wake-up came from. It
 * has memory of its own, for both are named by the same resolver, one after the other. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/sample.h"

#include <stddef.h>

struct waker_stack {
    struct frame *frames; /* leaf first, as all stacks: the waker's outermost one; the last says who it was */
    size_t count, capacity;
    char *texts;
    size_t text_capacity;
};

/* Takes copies of the first `count` frames of `waker`, which may be NULL with none, below which `text` is put. -ENOMEM:
 * holds none. */
int waker_stack_set(struct waker_stack *w, const struct sample *waker, size_t count, const char *text);

/* Gives `s` the frames of `w` with its own behind them. These are copied, their texts borrowed; what `s` then has holds
 * until the next call. -ENOMEM: `s` is as before. */
int waker_stack_put(struct waker_stack *w, struct sample *s);

void waker_stack_clear(struct waker_stack *w);
