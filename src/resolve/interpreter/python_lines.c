/* Decoders of CPython's line tables; see python_lines.h. An entry of a location table begins with a byte whose highest
 * bit is set: its kind (4 bits) and its number of instructions minus one (3 bits). The kind's data follows in bytes
 * whose highest bit is clear. The older tables are pairs of bytes: an instruction delta, and a signed line delta. */
#include "resolve/interpreter/python_lines.h"

#define INSTRUCTION_BYTES 2
#define NO_LINE           (-128)

enum {
    KIND_ONE_LINE_0 = 10, /* up to 12: the line delta is kind - 10 */
    KIND_NO_COLUMNS = 13,
    KIND_LONG = 14,
    KIND_NONE = 15,
};

/* Six bits per byte, least significant first. */
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

static uint32_t as_line(int64_t line)
{
    return line <= 0 || line > UINT32_MAX ? 0 : (uint32_t)line;
}

static uint32_t line_by_locations(const uint8_t *table, size_t bytes, int32_t first_line, int64_t offset)
{
    int64_t line = first_line, end = 0;
    for (size_t at = 0; at < bytes;) {
        const unsigned kind = table[at] >> 3 & 15;
        end += (int64_t)INSTRUCTION_BYTES * ((table[at] & 7) + 1);
        at++;
        if (kind == KIND_NO_COLUMNS || kind == KIND_LONG)
            line += read_signed(table, bytes, at);
        else if (kind >= KIND_ONE_LINE_0 && kind < KIND_NO_COLUMNS)
            line += (int64_t)kind - KIND_ONE_LINE_0;
        if (offset < end)
            return kind == KIND_NONE ? 0 : as_line(line);
        while (at < bytes && !(table[at] & 128))
            at++;
    }
    return 0;
}

/* 3.10: pairs of a range's size in bytes and its line delta; -128: the range has no line. */
static uint32_t line_by_ranges(const uint8_t *table, size_t bytes, int32_t first_line, int64_t offset)
{
    int64_t line = first_line, end = 0;
    for (size_t at = 0; at + 1 < bytes; at += 2) {
        const int8_t lines = (int8_t)table[at + 1];
        end += table[at];
        if (lines != NO_LINE)
            line += lines;
        if (offset < end)
            return lines == NO_LINE ? 0 : as_line(line);
    }
    return 0;
}

/* Before 3.10: pairs of an instruction delta and a line delta; a delta that does not fit in a byte takes several pairs.
 */
static uint32_t line_by_lnotab(const uint8_t *table, size_t bytes, int32_t first_line, int64_t offset)
{
    int64_t line = first_line, begin = 0;
    for (size_t at = 0; at + 1 < bytes; at += 2) {
        begin += table[at];
        if (offset < begin)
            break;
        line += (int8_t)table[at + 1];
    }
    return as_line(line);
}

uint32_t python_line(enum python_lines kind, const uint8_t *table, size_t bytes, int32_t first_line, int64_t offset)
{
    if (offset < 0)
        return as_line(first_line);
    switch (kind) {
    case PYTHON_LINES_LOCATIONS:
        return line_by_locations(table, bytes, first_line, offset);
    case PYTHON_LINES_RANGES:
        return line_by_ranges(table, bytes, first_line, offset);
    case PYTHON_LINES_LNOTAB:
        return line_by_lnotab(table, bytes, first_line, offset);
    default:
        return 0;
    }
}
