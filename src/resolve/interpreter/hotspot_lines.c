/* Decoder of HotSpot's compressed line tables; see hotspot_lines.h. An entry is one byte, with the deltas of the index
 * (5 bits) and of the line (3 bits) to the previous entry's; or 0xff and two signed numbers of 1 to 5 bytes each. 0
 * ends the table. The entries need not be sorted. */
#include "resolve/interpreter/hotspot_lines.h"

#include "base/cursor.h"

#include <stdbool.h>

#define ENTRY_LONG   0xff
#define NUMBER_BYTES 5
#define NUMBER_LAST  192 /* bytes below it end a number */
#define NUMBER_BITS  6   /* of each byte that does not */

static int64_t read_signed(struct cursor *from, unsigned bias)
{
    uint32_t number = 0;
    for (unsigned i = 0; i < NUMBER_BYTES; i++) {
        const uint8_t byte = cursor_u8(from);
        number += ((uint32_t)byte - bias) << NUMBER_BITS * i;
        if (byte < NUMBER_LAST)
            break;
    }
    return number & 1 ? -(int64_t)(number >> 1) - 1 : (int64_t)(number >> 1);
}

struct entry {
    int64_t index, line;
};

/* False: the table ends. */
static bool read_entry(struct cursor *from, unsigned bias, struct entry *e)
{
    const uint8_t byte = cursor_u8(from);
    if (byte == ENTRY_LONG) {
        e->index += read_signed(from, bias);
        e->line += read_signed(from, bias);
    } else {
        e->index += byte >> 3;
        e->line += byte & 7;
    }
    return byte && !from->failed;
}

uint32_t hotspot_line(const uint8_t *table, size_t bytes, unsigned bias, uint32_t index)
{
    struct cursor from = cursor_make(table, bytes);
    struct entry e = {0}, best = {-1, 0};
    while (read_entry(&from, bias, &e))
        if (e.index <= index && e.index >= best.index)
            best = e;
    const bool is_cut = from.failed && best.index < index;
    return is_cut || best.line < 0 || best.line > UINT32_MAX ? 0 : (uint32_t)best.line;
}

size_t hotspot_lines_bytes(const uint8_t *data, size_t bytes)
{
    struct cursor from = cursor_make(data, bytes);
    struct entry ignored = {0};
    while (read_entry(&from, 0, &ignored))
        ;
    return from.failed ? bytes : from.position;
}
