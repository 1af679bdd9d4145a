/* A window of the last minutes of a running agent, by how long ago it was, as a profile: what `sonde diff --window`
 * compares. */
#pragma once

#include "import/pprof_file.h"
#include "model/profile.h"

#include <stdint.h>

struct agent_window {
    const char *text;        /* as asked for, borrowed; for messages */
    uint64_t from_ms, to_ms; /* ago; the first is the larger one */
};

/* "60s..30s". -EINVAL (said): not that, or it ends before it begins. */
int agent_window_parse(const char *text, struct agent_window *ret);

struct agent_scope {
    uint32_t pid;          /* 0: any */
    const char *container; /* digits of its id; NULL: any */
    const char *time;      /* "cpu", "off_cpu", "wall"; NULL: cpu */
};

/* The moment that windows are counted back from, of the agent's clock: one for all that are compared. Says why not. */
int agent_window_now(const char *address, uint64_t *ret_now_ms);
/* As pprof_file_read gives it. Says why not. */
int agent_window_read(const char *address, uint64_t now_ms, const struct agent_window *window,
                      const struct agent_scope *scope, const char *value, struct profile **ret,
                      struct pprof_about *ret_about);
