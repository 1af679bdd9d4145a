/* Opening a process's /tmp/perf-PID.map: another user's file, in a directory where everybody may put whatever they
 * like. Called in the helper process (file_helper.h) only, for the file system may keep one waiting. Stateless. */
#pragma once

#include <stdint.h>

/* `proc_fd`: of proc_open. The file as the process sees it, by the number that it has in its own PID namespace. Only a
 * regular file of the process's user or of root, that no symbolic link leads to, and that was written at
 * `not_before_ns` (CLOCK_REALTIME) or later: what a process of the same number left behind is not of this one's code. A
 * descriptor for reading, or -errno: -ENOENT: there is none; -ESTALE: it is older; -EPERM: anything else of the above.
 */
int perf_map_file_open(int proc_fd, uint64_t not_before_ns);
