/* See waker_stack.h. */
#include "signals/offcpu/waker_stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The string members of a frame. */
#define FRAME_TEXTS(X) X(function) X(system_name) X(file) X(mapping) X(build_id)

static size_t text_bytes(const struct frame *f)
{
#define X(field) strlen(f->field) + 1 +
    return FRAME_TEXTS(X) 0;
#undef X
}

static const char *copy_text(const char *text, char **to)
{
    const size_t size = strlen(text) + 1;
    char *copy = memcpy(*to, text, size);
    *to += size;
    return copy;
}

static void copy_frame(const struct frame *from, struct frame *to, char **texts)
{
    *to = *from;
#define X(field) to->field = copy_text(from->field, texts);
    FRAME_TEXTS(X)
#undef X
}

static int reserve_frames(struct waker_stack *w, size_t count)
{
    if (count <= w->capacity)
        return 0;
    struct frame *frames = reallocarray(w->frames, count, sizeof(*frames));
    if (!frames)
        return -ENOMEM;
    w->frames = frames;
    w->capacity = count;
    return 0;
}

static int reserve_texts(struct waker_stack *w, size_t bytes)
{
    if (bytes <= w->text_capacity)
        return 0;
    free(w->texts);
    w->texts = malloc(bytes);
    w->text_capacity = w->texts ? bytes : 0;
    return w->texts ? 0 : -ENOMEM;
}

int waker_stack_set(struct waker_stack *w, const struct sample *waker, size_t count, const char *text)
{
    const struct frame separator = frame_of_text(FRAME_WAIT, text);
    size_t bytes = text_bytes(&separator);
    for (size_t i = 0; i < count; i++)
        bytes += text_bytes(&waker->frames[i]);
    w->count = 0;
    int r = reserve_frames(w, count + 1);
    if (r == 0)
        r = reserve_texts(w, bytes);
    if (r < 0)
        return r;
    char *texts = w->texts;
    for (size_t i = 0; i < count; i++)
        copy_frame(&waker->frames[count - 1 - i], &w->frames[i], &texts);
    copy_frame(&separator, &w->frames[count], &texts);
    w->count = count + 1;
    return 0;
}

int waker_stack_put(struct waker_stack *w, struct sample *s)
{
    int r = reserve_frames(w, w->count + s->frame_count);
    if (r < 0)
        return r;
    memcpy(w->frames + w->count, s->frames, s->frame_count * sizeof(*w->frames));
    s->frames = w->frames;
    s->frame_count += w->count;
    return 0;
}

void waker_stack_clear(struct waker_stack *w)
{
    free(w->frames);
    free(w->texts);
    *w = (struct waker_stack){0};
}
