/* Frames to text; see stack_text.h. */
#include "diagnose/stack_text.h"

#include "base/utf8.h"
#include "model/request.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MAX      4
#define SHOWN_BYTES    64
#define STACK_MAX      16384 /* of one wait, as text */
#define STACK_TOO_LONG "[truncated: names too long]"

static void append(char *out, size_t size, const char *text)
{
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s", text);
}

/* Copies `text` with unprintable bytes replaced; truncated ones end in "...". */
static const char *make_printable(const char *text, char *out, size_t size)
{
    size_t used = 0;
    while (*text) {
        size_t n = utf8_length(text);
        bool prints = n > 0 && (unsigned char)*text >= 0x20 && *text != 0x7f;
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

static const char *printable_frame_name(const struct frame *f, char *out, size_t size)
{
    char text[FRAME_TEXT_BYTES];
    return make_printable(frame_text(f->kind, f->function, f->mapping, f->address, text), out, size);
}

/* Frames that say nothing about the program: the C library and the vDSO. */
static bool is_c_library(const struct frame *f)
{
    static const char *const starts[] = {"libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libc.musl"};
    const char *slash = strrchr(f->mapping, '/'), *base = slash ? slash + 1 : f->mapping;
    for (size_t i = 0; i < array_size(starts); i++)
        if (strncmp(base, starts[i], strlen(starts[i])) == 0)
            return true;
    return strcmp(base, "[vdso]") == 0;
}

/* Skips the C library, except for the function that the program called, such as pthread_mutex_lock. */
static size_t first_shown(const struct frame *frames, size_t count, const char *syscall)
{
    size_t i = 0;
    while (i < count && is_c_library(&frames[i]))
        i++;
    if (i == count)
        return 0;
    if (i > 0 && frames[i - 1].function[0] && strcmp(frames[i - 1].function, syscall) != 0)
        i--;
    return i;
}

void stack_text_append_user(const struct frame *frames, size_t count, const char *syscall, char *out, size_t size)
{
    char text[SHOWN_BYTES];
    int shown = 0;
    for (size_t i = first_shown(frames, count, syscall); i < count && shown < SHOWN_MAX; i++) {
        if (frames[i].kind == FRAME_TRUNCATED)
            break;
        append(out, size, shown++ ? " < " : " in ");
        append(out, size, printable_frame_name(&frames[i], text, sizeof(text)));
    }
}

void stack_text_put(struct buf *out, const struct frame *frames, size_t count)
{
    char text[REQUEST_FRAME_BYTES];
    for (size_t i = 0; i < count; i++) {
        const struct frame *f = &frames[i];
        const char *mark = f->kind == FRAME_KERNEL || f->kind == FRAME_BPF ? REQUEST_KERNEL_FRAME : "";
        printable_frame_name(f, text, sizeof(text) - strlen(mark));
        if (out->size + strlen(text) + strlen(mark) + sizeof(STACK_TOO_LONG) + 1 > STACK_MAX) {
            buf_puts(out, "\n" STACK_TOO_LONG);
            return;
        }
        if (out->size)
            buf_putc(out, '\n');
        buf_puts(out, text);
        buf_puts(out, mark);
    }
}
