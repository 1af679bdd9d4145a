/* /proc/PID/maps: for any text, every returned line is executable, not empty, and its path is within the text. */
#include "resolve/proc/maps.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cursor text = cursor_make(data, size);
    struct maps_line line;
    while (maps_next_executable(&text, &line)) {
        const uint8_t *path = (const uint8_t *)line.path;
        if (!line.executable || line.end <= line.start || path < data || line.path_bytes > size ||
            path + line.path_bytes > data + size ||
            maps_path_without_deleted(line.path, line.path_bytes) > line.path_bytes)
            abort();
    }
    return 0;
}
