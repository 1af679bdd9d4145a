/* The output file of a profile. The destination is checked and resolved before recording starts, so that no recording
 * is lost to a bad path; a link placed there during the recording does not redirect the output. A regular file is
 * replaced atomically (file_part.h); a pipe or a device is written to directly.
 *
 * Symbolic links are followed, except to a missing file (as with cp), and except links that another user placed in a
 * world-writable sticky directory such as /tmp: Sonde mostly runs as root. This is the rule of the kernel's
 * fs.protected_symlinks, which may be off. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct output {
    const char *subcommand; /* name of the subcommand, static; for messages */
    const char *name;       /* as given by the user, borrowed; "-": standard output */
    bool is_stream;         /* a pipe or a device */
    dev_t device;           /* of a stream */
    ino_t inode;
    char path[PATH_MAX]; /* with symbolic links resolved */
};

/* Checks that `name` can be written and resolves its links into `*ret`. Returns 0, or -errno after logging. Leaves no
 * file behind. */
int output_check(const char *subcommand, const char *name, struct output *ret);

/* Writes the profile. If that fails for a reason other than EPIPE, saves it in TMPDIR, /tmp, /var/tmp or /dev/shm under
 * a name that ends in `suffix`, logs the path, and still returns the error. 0 or -errno, logged. */
int output_write(const struct output *o, const char *suffix, const char *data, size_t size);
