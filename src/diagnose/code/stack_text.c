/* Frames to text; see stack_text.h. */
#include "diagnose/code/stack_text.h"

#include "base/starts_with.h"
#include "diagnose/code/code_place.h"
#include "diagnose/code/frame_name.h"
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
static size_t first_shown(const struct frame *frames, size_t count)
{
    size_t i = 0;
    while (i < count && is_c_library(&frames[i]))
        i++;
    if (i == count)
        return 0;
    return i > 0 && frames[i - 1].function[0] ? i - 1 : i;
}

/* Functions on the stack of every sleeping thread, which carry no information. */
static bool is_scheduler(const char *function)
{
    static const char *const names[] = {"__schedule",     "schedule",           "io_schedule",      "preempt_schedule",
                                        "__cond_resched", "do_wait_for_common", "__wait_for_common"};
    for (size_t i = 0; i < array_size(names); i++)
        if (starts_with(function, names[i]))
            return true;
    return false;
}

static bool is_entry(const char *function)
{
    return starts_with(function, "__x64_sys_") || starts_with(function, "__arm64_sys_") ||
           starts_with(function, "do_syscall") || starts_with(function, "x64_sys_call") ||
           starts_with(function, "entry_SYSCALL") || starts_with(function, "__se_sys_") ||
           starts_with(function, "invoke_syscall") || starts_with(function, "el0") ||
           starts_with(function, "asm_exc_") || starts_with(function, "exc_");
}

/* Whether a runtime executes code of this stack. */
static bool has_runtime(const struct frame *frames, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (frame_kind_has_lines(frames[i].kind))
            return true;
    return false;
}

/* The user's own function and its line; the functions that it called follow. */
static size_t append_own(const struct frame *frames, size_t own, size_t shown, char *out, size_t size)
{
    struct code_place place;
    char text[CODE_TEXT_BYTES];
    code_place_of(&frames[own], 1, &place);
    append(out, size, " in ");
    append(out, size, code_place_text(&place, text));
    if (shown < own)
        append(out, size, ", calling ");
    return own;
}

void stack_text_append_user(const struct frame *frames, size_t count, char *out, size_t size)
{
    char text[SHOWN_BYTES];
    const size_t own = code_place_own_frame(frames, count), first = first_shown(frames, count);
    const bool has_place = own < count && own >= first && (frames[own].line || own >= first + SHOWN_MAX);
    const size_t end = has_place ? append_own(frames, own, first, out, size) : count;
    const bool is_run = has_runtime(frames, count);
    int shown = 0;
    for (size_t i = first; i < end && shown < SHOWN_MAX; i++) {
        if (frames[i].kind == FRAME_TRUNCATED)
            break;
        if (is_run && shown && !frame_kind_has_lines(frames[i].kind))
            continue;
        append(out, size, shown++ ? " < " : has_place ? "" : " in ");
        append(out, size, frame_name_text(&frames[i], text, sizeof(text)));
    }
}

/* Whether the function at `at` is the system call that the detail begins with. `*ret_callers`: the functions after it.
 */
static bool is_call_of(const char *at, const char *detail, const char **ret_callers)
{
    static const char from[] = " < ";
    const size_t bytes = strcspn(detail, " :");
    if (!bytes || strncmp(at, detail, bytes) != 0 || (at[bytes] && strncmp(at + bytes, from, strlen(from)) != 0))
        return false;
    *ret_callers = at[bytes] ? at + bytes + strlen(from) : "";
    return true;
}

void stack_text_put_caller(struct buf *out, const char *where, const char *detail)
{
    static const char in[] = " in ", calling[] = ", calling ";
    const char *text = where + (starts_with(where, in) ? strlen(in) : 0), *called = strstr(text, calling), *callers;
    if (is_call_of(text, detail, &callers))
        buf_puts(out, callers);
    else if (called && is_call_of(called + strlen(calling), detail, &callers))
        buf_printf(out, "%.*s%s%s", (int)(called - text), text, callers[0] ? calling : "", callers);
    else
        buf_puts(out, text);
}

void stack_text_append_kernel(const struct frame *frames, size_t count, char *out, size_t size)
{
    int shown = 0;
    for (size_t i = 0; i < count && shown < SHOWN_MAX; i++) {
        const char *function = frames[i].function;
        if (!function[0] || is_scheduler(function))
            continue;
        if (is_entry(function))
            break;
        append(out, size, shown++ ? " < " : ": ");
        append(out, size, function);
    }
}

void stack_text_put(struct buf *out, const struct frame *frames, size_t count)
{
    char text[REQUEST_FRAME_BYTES];
    for (size_t i = 0; i < count; i++) {
        const struct frame *f = &frames[i];
        const char *mark = f->kind == FRAME_KERNEL || f->kind == FRAME_BPF ? REQUEST_KERNEL_FRAME : "";
        frame_name_text(f, text, sizeof(text) - strlen(mark));
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
