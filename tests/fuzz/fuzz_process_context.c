/* A process context with any contents: its strings are complete, bounded and free of control characters, and each
 * attribute occurs once and in order. */
#include "model/resource.h"
#include "resolve/process/process_context.h"

#include <stdlib.h>
#include <string.h>

static void check_text(const char *text, size_t size)
{
    if (strnlen(text, size) == size)
        abort();
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct process_context c;
    if (process_context_parse(data, size, &c) < 0)
        return 0;
    check_text(c.service.name, sizeof(c.service.name));
    check_text(c.service.namespace, sizeof(c.service.namespace));
    check_text(c.service.version, sizeof(c.service.version));
    if (strnlen(c.attributes, sizeof(c.attributes)) == sizeof(c.attributes))
        abort();
    struct resource_other other;
    char before[RESOURCE_KEY_BYTES] = "";
    const char *at = c.attributes;
    while (resource_next_other(&at, &other)) {
        check_text(other.key, sizeof(other.key));
        check_text(other.text, sizeof(other.text));
        if (strcmp(before, other.key) >= 0 || resource_is_of_node(other.key) || !other.text[0])
            abort();
        memcpy(before, other.key, sizeof(before));
    }
    if (*at)
        abort();
    return 0;
}
