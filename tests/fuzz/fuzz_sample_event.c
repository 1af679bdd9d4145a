/* Event names: an accepted name is safe as a part of a tracefs path, and a refused one leaves the result unchanged. */
#include "sources/attach/sample_event.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[PATH_MAX + 512];
    struct sample_event e = {.period = 4711};
    size_t length = size < sizeof(text) ? size : sizeof(text) - 1;
    memcpy(text, data, length);
    text[length] = 0;

    if (sample_event_parse(text, &e) < 0) {
        if (e.period != 4711 || e.name[0])
            abort();
        return 0;
    }
    if (!e.name[0] || !e.unit || strpbrk(e.group, "/:\n") || strpbrk(e.member, "/:\n") || e.group[0] == '.' || e.member[0] == '.')
        abort();
    if (e.path[0] && e.path[0] != '/')
        abort();
    return 0;
}
