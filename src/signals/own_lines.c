/* Lines of native frames; see own_lines.h. */
#include "signals/own_lines.h"

#include "diagnose/code/code_origin.h"
#include "diagnose/code/code_place.h"
#include "resolve/lines/native_lines.h"

#include <errno.h>

void own_lines_choose(const struct native_place *place, struct frame *frame)
{
    for (size_t i = 0; i < place->count; i++) {
        const struct native_function *f = &place->functions[i];
        const bool is_outermost = i + 1 == place->count;
        struct frame chosen = *frame;
        if (f->function[0] && (!is_outermost || !frame->function[0]))
            chosen.function = f->function;
        chosen.file = f->file;
        chosen.line = f->file[0] ? f->line : 0;
        if (!is_outermost && (!f->function[0] || code_origin(&chosen, false) != CODE_OWN))
            continue;
        *frame = chosen;
        return;
    }
}

bool own_lines_add(struct native_lines *n, struct frame *frames, size_t count)
{
    const size_t own = code_place_own_frame(frames, count);
    struct native_place place;
    if (own == count || frames[own].kind != FRAME_NATIVE || frames[own].line || !frames[own].object)
        return true;
    const int r = native_lines_find(n, frames[own].object, frames[own].address, &place);
    if (r == 0)
        own_lines_choose(&place, &frames[own]);
    return r != -EAGAIN;
}
