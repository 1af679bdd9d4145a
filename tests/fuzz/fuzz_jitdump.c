/* Any bytes as a jitdump, read in pieces up to a time: ranges are within the file, and their names are valid text. */
#include "resolve/jit/jitdump.h"

#include <stdlib.h>
#include <string.h>

#define PIECE 300

static void describe(const uint8_t *data, size_t size, const struct code_range *range)
{
    struct jitdump_code code;
    if (range->place >= size)
        abort();
    const size_t left = size - range->place, wanted = jitdump_described_bytes(data + range->place, left), bytes = wanted < left ? wanted : left;
    void *piece = malloc(bytes); /* exactly that size, for the sanitizer */
    if (!piece)
        abort();
    memcpy(piece, data + range->place, bytes);
    for (uint64_t distance = 0; distance < 128; distance += 16)
        if (jitdump_describe(piece, bytes, distance, 0, &code) && (strlen(code.name) > bytes || strlen(code.file) > bytes))
            abort();
    free(piece);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jitdump_header header;
    struct code_ranges ranges = {0};
    uint64_t bad = 0, until_ns[] = {1000, UINT64_MAX};
    if (jitdump_header_parse(data, size, &header) < 0)
        return 0;
    struct jitdump_reading reading = {.has_times = header.has_times, .debug_address = UINT64_MAX};
    uint64_t at = header.bytes;
    int64_t n = 1;
    for (size_t i = 0; i < 2 && n >= 0; i++) {
        reading.until_ns = until_ns[i];
        for (n = 1; n > 0 && at < size; at += n > 0 ? (uint64_t)n : 0) {
            const size_t left = size - (size_t)at, bytes = left < PIECE ? left : PIECE;
            n = jitdump_take(&ranges, &reading, data + at, bytes, (uint32_t)at, &bad);
        }
        if (reading.has_times && n == 0 && reading.next_ns && reading.next_ns <= until_ns[i])
            abort();
    }
    for (uint64_t address = 0; address < 65536; address += 64) {
        struct code_range range;
        if (code_ranges_find(&ranges, address, &range))
            describe(data, size, &range);
    }
    code_ranges_clear(&ranges);
    return 0;
}
