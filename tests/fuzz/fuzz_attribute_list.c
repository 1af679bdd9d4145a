/* An arbitrary OTEL_RESOURCE_ATTRIBUTES. Each pair of a valid list is read, and no other ends the reading early. */
#include "model/attribute_list.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[ATTRIBUTE_LIST_NAME_BYTES], value[ATTRIBUTE_LIST_VALUE_BYTES];
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (attribute_list_is_valid(text)) {
        const char *at = text;
        while (attribute_list_next(&at, name, value))
            if (!name[0])
                abort();
        if (*at)
            abort();
    }
    free(text);
    return 0;
}
