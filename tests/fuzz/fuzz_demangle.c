/* Demangling of any bytes up to the first NUL. Output size is bounded, and so is time (libFuzzer's -timeout). */
#include "resolve/symbols/demangle.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char out[DEMANGLED_MAX], *name = malloc(size + 3);
    memcpy(name + 2, data, size);
    name[size + 2] = '\0';
    static const char heads[][2] = {{'_', 'Z'}, {'_', 'R'}};
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            memcpy(name, heads[i], 2);
        demangle(i < 2 ? name : name + 2, out);
        if (strnlen(out, sizeof(out)) == sizeof(out))
            abort();
    }
    free(name);
    return 0;
}
