/* The waker's stack, inverted and placed above the waiter's: from the wait up to the root of the wake-up. Frames are
 * copied, because the resolver reuses its buffers for the waiter's stack. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "model/sample.h"

#include <stddef.h>

struct waker_stack {
    struct frame *frames; /* leaf first, like all stacks: begins with the waker's outermost frame; the last one is
                           * the text */
    size_t count, capacity;
    char *texts;
    size_t text_capacity;
};

/* Copies the first `count` frames of `waker` (may be NULL if 0), followed by a frame named `text`. -ENOMEM: holds no
 * frames. */
int waker_stack_set(struct waker_stack *w, const struct sample *waker, size_t count, const char *text);

/* Prepends the frames of `w` to the frames of `s`. The frames are copied, their strings borrowed; valid until the next
 * call. -ENOMEM: `s` is unchanged. */
int waker_stack_put(struct waker_stack *w, struct sample *s);

void waker_stack_clear(struct waker_stack *w);
