/* The files that the engine writes. Its library (chDB 26.5) does not notice that a write has failed: it would finish
 * parts of tables without their data, report their insertion as done, and delete the parts that it has merged into
 * them. So its writes to the files of tables do not fail: on a full disk they wait for space, and otherwise, or if
 * there is none for long, the process ends before the part is finished. The server starts it again. */
#pragma once

/* Has the library, a handle of dlopen, call functions of this file in place of write, fsync and their relatives. To be
 * called before its first call. 0; -ENOENT: it has no calls of write that can be replaced. */
int engine_files_guard(void *library);
