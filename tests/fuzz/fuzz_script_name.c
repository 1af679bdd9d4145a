/* Arguments of a process. */
#include "base/script_name.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char out[16];
    script_name((const char *)data, size, out, sizeof(out));
    assert(memchr(out, '\0', sizeof(out)));
    return 0;
}
