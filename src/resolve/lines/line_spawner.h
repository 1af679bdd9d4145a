/* Forks the processes that read DWARF (line_helper.h) for an agent: a small process that is itself forked when the
 * agent starts. A reader that a file subverts then holds no memory of the agent, and a fork copies no large process.
 * The spawner runs one reader at a time, at a low priority, and reads nothing itself. One thread at a time. */
#pragma once

#include "base/cleanup.h"
#include "resolve/lines/line_helper.h"

#include <stddef.h>
#include <stdint.h>

#define LINE_SPAWNER_ADDRESSES_MAX 256 /* of a request */

struct line_spawner;

/* Forks it, while the caller is small and has no other threads. The caller frees `*ret`. -ENOMEM, or -errno. */
int line_spawner_new(struct line_spawner **ret);
/* Ends it and its reader at once: calls of another thread return -EPIPE. */
void line_spawner_kill(struct line_spawner *s);
/* Kills it as well. */
void line_spawner_free(struct line_spawner *s);
DEFINE_FREEP(line_spawner)

/* Starts a reader, whose messages come from `ret->socket`; `ret->pid` is 0. The contents of `request` need to be valid
 * only until this returns. -EPIPE: the spawner has ended. */
int line_spawner_start(struct line_spawner *s, const struct dwarf_request *request, struct line_helper *ret);

/* Closes the descriptors of `helper`, and waits for the reader's end; the spawner kills a reader that does not end.
 * Sets `ret_cpu_ns` to the CPU time that it used. -EPIPE: the spawner has ended. */
int line_spawner_end(struct line_spawner *s, struct line_helper *helper, uint64_t *ret_cpu_ns);
