/* Parser of perf maps; see perf_map.h. */
#include "resolve/jit/perf_map.h"

#include <errno.h>
#include <string.h>

#define ADDRESS_MAX ((uint64_t)1 << 57) /* of user space, with five-level page tables */

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/* Parses a hexadecimal number (HotSpot writes it with 0x) and the space after it; returns the rest. NULL:
 * malformed. */
static const char *parse_number(const char *at, const char *end, uint64_t *ret)
{
    if (end - at > 2 && at[0] == '0' && (at[1] | 0x20) == 'x')
        at += 2;
    const char *start = at;
    uint64_t value = 0;
    for (; at < end && digit_value(*at) < 16; at++) {
        if (value >> 60)
            return NULL;
        value = value << 4 | (unsigned)digit_value(*at);
    }
    if (at == start || at == end || *at != ' ')
        return NULL;
    *ret = value;
    return at + 1;
}

bool perf_map_parse(const char *line, size_t bytes, struct perf_map_line *ret)
{
    const char *end = line + bytes;
    uint64_t start, size;
    const char *at = parse_number(line, end, &start);
    at = at ? parse_number(at, end, &size) : NULL;
    if (!at || size == 0 || size > UINT32_MAX || start >= ADDRESS_MAX)
        return false;
    while (at < end && *at == ' ')
        at++;
    while (end > at && (end[-1] == '\r' || end[-1] == ' '))
        end--;
    if (at == end)
        return false;
    *ret = (struct perf_map_line){start, (uint32_t)size, at, (size_t)(end - at)};
    return true;
}

int64_t perf_map_take(struct code_ranges *ranges, const void *data, size_t bytes, uint32_t place, uint64_t *bad)
{
    const char *text = data, *at = text, *end = text + bytes, *feed;
    while (at < end && (feed = memchr(at, '\n', (size_t)(end - at)))) {
        struct perf_map_line line;
        if (feed - at > PERF_MAP_LINE_MAX)
            return -EBADMSG;
        if (perf_map_parse(at, (size_t)(feed - at), &line)) {
            const struct code_range range = {line.start, line.size, place + (uint32_t)(at - text)};
            int r = code_ranges_put(ranges, &range);
            if (r < 0)
                return r;
        } else {
            ++*bad;
        }
        at = feed + 1;
    }
    return end - at > PERF_MAP_LINE_MAX ? -EBADMSG : at - text;
}
