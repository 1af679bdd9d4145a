/* Profiles of past time windows of a running agent, given as ages ("60s..30s"), for `sonde diff --window`. All
 * functions log the reason when they fail. */
#pragma once

#include "import/pprof_file.h"
#include "model/profile.h"

#include <stdint.h>

struct agent_window {
    const char *text;        /* as the user wrote it; borrowed, for messages */
    uint64_t from_ms, to_ms; /* ages in milliseconds; from_ms > to_ms */
};

/* Parses "60s..30s". -EINVAL: not of this form, longer than an hour ago, or the end is before the start. */
int agent_window_parse(const char *text, struct agent_window *ret);

struct agent_scope {
    uint32_t pid;          /* 0: any */
    const char *container; /* leading hexadecimal digits of its ID; NULL: any */
    const char *time;      /* "cpu", "off_cpu", "wall"; NULL: cpu */
};

/* Reads the agent's current time. Both windows of a comparison count back from the same value. */
int agent_window_now(const char *address, uint64_t *ret_now_ms);
/* Fetches the profile of `window`, filtered by `scope`, and parses it as pprof_file_read does (`value`, `ret`,
 * `ret_about`). */
int agent_window_read(const char *address, uint64_t now_ms, const struct agent_window *window,
                      const struct agent_scope *scope, const char *value, struct profile **ret,
                      struct pprof_about *ret_about);
