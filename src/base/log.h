/* Messages to the operator: one line each on standard error. Only agent, serve, the sources' doctor notes and cli
 * log; libraries return errors instead. Any thread may log; a line is written as a whole.
 *
 * Message texts are never split over lines of source, so that they can be found with grep. */
#pragma once

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Messages above `level` are dropped. Any thread, at any time. */
void log_set_level(enum log_level level);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Logs `format: <text of error>` and returns `error` (a -errno), so that a failing path is one line: return
 * log_errno(r, "cannot open %s", path); */
int log_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
