/* Names from untrusted files as text; see frame_name.h. */
#include "diagnose/code/frame_name.h"

#include "base/utf8.h"

#include <string.h>

const char *frame_name_printable(const char *text, char *out, size_t size)
{
    size_t used = 0;
    while (*text) {
        size_t n = utf8_length(text);
        bool prints = n > 0 && !utf8_at_control(text);
        if (used + (prints ? n : 1) >= size - 3) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (prints)
            memcpy(out + used, text, n);
        else
            out[used] = '?';
        used += prints ? n : 1;
        text += n ? n : 1;
    }
    out[used] = 0;
    return out;
}

const char *frame_name_text(const struct frame *f, char *out, size_t size)
{
    char text[FRAME_TEXT_BYTES];
    return frame_name_printable(frame_text(f->kind, f->function, f->mapping, f->address, text), out, size);
}
