/* Confines the engine process. Readers' SQL runs in it, and ClickHouse as a library lets SQL read any file of the
 * process (the function `file`), so the kernel must refuse what the engine does not refuse. */
#pragma once

/* From now on this thread and those that it starts can open files below `directory`, and read the file `configuration`
 * and a few of the kernel's about this machine; they have no capabilities, start no programs and make no connections.
 * Both exist. 0; -EOPNOTSUPP: the kernel has no Landlock (Linux 5.13); another -errno. */
int engine_confine(const char *directory, const char *configuration);
