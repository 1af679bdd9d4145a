/* Blocks of any contents: every field that is given out is readable, and the table keeps to its bounds. */
#include "base/hpack.h"

#include <stdlib.h>
#include <string.h>

static void check_field(void *context, const struct hpack_field *f)
{
    char copy[HPACK_VALUE_MAX];
    (void)context;
    if (f->name >= HPACK_NAMES)
        abort();
    if (f->has_value && f->name != HPACK_OTHER)
        memcpy(copy, f->value, f->value_size < HPACK_VALUE_MAX ? f->value_size : HPACK_VALUE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hpack_decoder d;
    hpack_decoder_init(&d, size && data[0] & 1);
    for (size_t at = 1; at < size;) { /* blocks, each after its length */
        const size_t length = data[at++], n = length < size - at ? length : size - at;
        (void)hpack_decode(&d, data + at, n, check_field, NULL);
        if (d.size > HPACK_TABLE_MAX || d.bytes > 2 * HPACK_TABLE_MAX)
            abort();
        at += n;
    }
    hpack_decoder_clear(&d);
    if (d.bytes)
        abort();
    return 0;
}
