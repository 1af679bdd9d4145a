/* Names of mounts and cgroups as the BPF programs note them: the path is absolute, terminated and fits. */
#include "sources/io/io_path.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct io_name name = {0};
    char whole[sizeof(name.names) + 16], part[24];
    memcpy(&name, data, size < sizeof(name) ? size : sizeof(name));
    io_path_format(&name, whole, sizeof(whole));
    io_path_format(&name, part, sizeof(part));
    if (whole[0] != '/' || strnlen(whole, sizeof(whole)) == sizeof(whole) || strncmp(whole, part, strlen(part)) != 0)
        abort();
    return 0;
}
