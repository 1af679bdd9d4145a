/* From names, the last of a path first, to the path; see io_path.h. */
#include "sources/io/io_path.h"

#include <stdio.h>
#include <string.h>

void io_path_format(const struct io_name *name, char *ret, size_t size)
{
    const char *parts[IO_NAMES_BYTES + IO_NAME_MAX];
    size_t count = 0, length = 0;
    const size_t end = name->size < sizeof(name->names) ? name->size : sizeof(name->names);
    for (size_t at = 0; at < end && count < sizeof(parts) / sizeof(parts[0]);) {
        const size_t part = strnlen(&name->names[at], end - at);
        if (part == end - at) /* not terminated */
            break;
        if (part)
            parts[count++] = &name->names[at];
        at += part + 1;
    }
    const char *start = name->is_cut ? "/..." : "";
    length = (size_t)snprintf(ret, size, "%s", count ? start : "/");
    while (count && length < size)
        length += (size_t)snprintf(ret + length, size - length, "/%s", parts[--count]);
}
