/* The environment of another process: at most three terminated values result. */
#include "resolve/proc/identity.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct identity_service s;
    identity_from_environ((const char *)data, size, &s);
    if (strnlen(s.name, sizeof(s.name)) == sizeof(s.name) ||
        strnlen(s.namespace, sizeof(s.namespace)) == sizeof(s.namespace) ||
        strnlen(s.version, sizeof(s.version)) == sizeof(s.version))
        abort();
    return 0;
}
