/* Where a profile goes. What stands there is settled before anything is recorded, so that nothing is recorded in vain,
 * and holds at the end: who replaces it meanwhile by a link of his own has not turned us elsewhere. A file appears only
 * when it is whole (file_part.h); a pipe or a device is written into.
 *
 * Links are followed as cp follows them: not to where nothing is. Nor are those that somebody else put into a directory
 * that all may write to, such as /tmp: this program is mostly root's (the rule of the kernel's fs.protected_symlinks,
 * which may be off). */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct output {
    const char *verb;  /* static; for messages */
    const char *asked; /* borrowed; "-": standard output */
    bool is_stream;    /* a pipe or a device */
    dev_t device;      /* of a stream */
    ino_t inode;
    char path[PATH_MAX]; /* with links followed */
};

/* Says why not when it cannot be. Leaves nothing behind. */
int output_check(const char *verb, const char *asked, struct output *ret);

/* What cannot be written there is kept in a directory for temporary files, under a name that ends in `suffix`, and said
 * to be there; an error all the same. */
int output_write(const struct output *o, const char *suffix, const char *data, size_t size);
