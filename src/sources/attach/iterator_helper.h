/* Runs a task iterator that may sleep in a helper process, because reading may have to swap pages in, or may wait for a
 * lock that another process holds on the mappings. One walk at a time. Pipeline thread only. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define ITERATOR_HELPER_MAX_S 5 /* the walk ends after this time, wherever it is */

/* Zeroed: no walk. */
struct iterator_helper {
    pid_t pid; /* the helper process; 0: none */
};

/* Starts a walk of the iterator `link_fd` in a process of this name (at most 15 bytes). -EBUSY: the last walk has not
 * ended; -errno. */
int iterator_helper_start(struct iterator_helper *h, int link_fd, const char *name);
/* False while the helper runs, and after it was killed until its pending page fault returns. */
bool iterator_helper_has_ended(struct iterator_helper *h);
/* Waits up to `patience_ms` for the walk, then kills it. */
void iterator_helper_end(struct iterator_helper *h, int patience_ms);
