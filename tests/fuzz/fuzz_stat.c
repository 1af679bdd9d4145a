/* /proc/PID/stat, whose command may be any bytes: on failure the result is unchanged. */
#include "resolve/proc/proc_files.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proc_stat s = {.threads = 12345};
    if (proc_stat_parse((const char *)data, size, &s) < 0 ? s.threads != 12345
                                                          : strnlen(s.command, sizeof(s.command)) == sizeof(s.command))
        abort();
    return 0;
}
