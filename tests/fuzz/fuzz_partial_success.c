/* The answer of an arbitrary receiver to a packet: protobuf or JSON. Reading stays within the bytes, and log text is a
 * single line. */
#include "trace/partial_success_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int protobuf = 0; protobuf < 2; protobuf++) {
        char why[OTLP_PARTIAL_WHY_SIZE];
        const char *body = (const char *)data;
        uint64_t rejected =
            protobuf ? otlp_partial_success(body, size, why) : trace_partial_success_json(body, size, why);
        if (rejected > INT64_MAX || memchr(why, '\0', sizeof(why)) == NULL || strpbrk(why, "\r\n"))
            abort();
    }
    return 0;
}
