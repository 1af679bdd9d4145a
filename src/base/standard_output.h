/* Standard output of subcommands, which write it from a buffer: a full disk must not look like success. */
#pragma once

#include "base/buf.h"

/* Writes `out` and empties it; nothing of it waits in stdio. 0, or -errno of the buffer or of the write. */
int standard_output_flush(struct buf *out);

/* The same; logs an error of subcommand `name`. */
int standard_output_write(const char *name, struct buf *out);
