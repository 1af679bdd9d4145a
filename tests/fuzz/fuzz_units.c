/* Numbers with units, from options and configuration: an accepted value is a number, and a refused one leaves the
 * result unchanged. */
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[64];
    size_t length = size < sizeof(text) ? size : sizeof(text) - 1;
    memcpy(text, data, length);
    text[length] = 0;

    const uint64_t untouched = 0x5ead5ead5ead5eadu;
    uint64_t ns = untouched, bytes = untouched;
    int64_t number = -7;
    double share = -1;
    if (units_parse_duration_ns(text, &ns) < 0 && ns != untouched)
        abort();
    if (units_parse_size_bytes(text, &bytes) < 0 && bytes != untouched)
        abort();
    if (units_parse_integer(text, 1, 100, &number) < 0 ? number != -7 : number < 1 || number > 100)
        abort();
    if (units_parse_percent(text, &share) < 0 ? share != -1 : !(share >= 0))
        abort();
    char out[32];
    units_format_duration(ns, out, sizeof(out));
    units_format_size(bytes, out, sizeof(out));
    return 0;
}
