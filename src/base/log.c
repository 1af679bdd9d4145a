/* Messages to the operator; see log.h. */
#include "base/log.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_int log_level = LOG_LEVEL_INFO; /* process-wide: the one setting that every layer shares */

static const char *const level_prefix[] = {
    [LOG_LEVEL_ERROR] = "sonde: error: ",
    [LOG_LEVEL_WARNING] = "sonde: warning: ",
    [LOG_LEVEL_INFO] = "sonde: ",
    [LOG_LEVEL_DEBUG] = "sonde: debug: ",
};

void log_set_level(enum log_level level)
{
    atomic_store(&log_level, level);
}

/* Names in messages are untrusted: a line feed in one must not look like a second message, nor an escape sequence
 * reach a terminal. */
static void hide_controls(char *text)
{
    for (size_t n; *text; text += n) {
        n = utf8_length(text);
        if (utf8_at_control(text))
            memset(text, '?', n);
        n += n == 0;
    }
}

static void log_line(enum log_level level, char *text, const char *detail)
{
    hide_controls(text);
    /* One stdio call per line, so that lines of two threads never mix. */
    if (detail)
        fprintf(stderr, "%s%s: %s\n", level_prefix[level], text, detail);
    else
        fprintf(stderr, "%s%s\n", level_prefix[level], text);
}

void log_write(enum log_level level, const char *format, ...)
{
    if ((int)level > atomic_load(&log_level))
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_line(level, text, NULL);
}

int log_errno(int error, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_line(LOG_LEVEL_ERROR, text, strerror(error < 0 ? -error : error));
    return error;
}
