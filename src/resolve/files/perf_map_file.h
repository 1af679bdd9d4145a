/* Opens a process's /tmp/perf-PID.map: an untrusted file in a world-writable directory. Called in the file helper
 * (file_helper.h) only, because the file system may block. Stateless. */
#pragma once

#include <stdint.h>

/* Opens the file as the process sees it, named by the PID in its own PID namespace. `proc_fd` is from proc_open. The
 * file must be a regular file, owned by root or by the process's user, reached through no symbolic link, and
 * modified at `not_before_ns` (CLOCK_REALTIME) or later: an older file was left by an earlier process with the same
 * PID. Returns a descriptor for reading, or -ENOENT: no such file; -ESTALE: it is too old; -EPERM: it fails another
 * condition; other -errno. */
int perf_map_file_open(int proc_fd, uint64_t not_before_ns);
