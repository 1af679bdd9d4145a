/* CPython's location tables; see python_lines.h. An entry begins with a byte whose highest bit is set: its kind (4 bits), how many
 * instructions it is for (3 bits, from 1 on), then what the kind says, in bytes whose highest bit is not set. */
#include "resolve/python_lines.h"

#define INSTRUCTION_BYTES 2

enum {
    KIND_ONE_LINE_0 = 10, /* up to 12: so many lines on */
    KIND_NO_COLUMNS = 13,
    KIND_LONG = 14,
    KIND_NONE = 15,
};

/* Six bits a byte, the lowest first. */
static uint32_t read_number(const uint8_t *table, size_t bytes, size_t at)
{
    uint32_t value = 0;
    for (unsigned shift = 0; at < bytes && shift < 32; shift += 6) {
        value |= (uint32_t)(table[at] & 63) << shift;
        if (!(table[at++] & 64))
            break;
    }
    return value;
}

static int32_t read_signed(const uint8_t *table, size_t bytes, size_t at)
{
    const uint32_t value = read_number(table, bytes, at);
    return value & 1 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

uint32_t python_line(const uint8_t *table, size_t bytes, int32_t first_line, int64_t offset)
{
    int64_t line = first_line, end = 0;
    if (offset < 0)
        return first_line > 0 ? (uint32_t)first_line : 0;
    for (size_t at = 0; at < bytes;) {
        const unsigned kind = table[at] >> 3 & 15;
        end += (int64_t)INSTRUCTION_BYTES * ((table[at] & 7) + 1);
        at++;
        if (kind == KIND_NO_COLUMNS || kind == KIND_LONG)
            line += read_signed(table, bytes, at);
        else if (kind >= KIND_ONE_LINE_0 && kind < KIND_NO_COLUMNS)
            line += (int64_t)kind - KIND_ONE_LINE_0;
        if (offset < end)
            return kind == KIND_NONE || line <= 0 || line > UINT32_MAX ? 0 : (uint32_t)line;
        while (at < bytes && !(table[at] & 128))
            at++;
    }
    return 0;
}
