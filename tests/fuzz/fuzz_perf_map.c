/* Any bytes as a perf map, in two pieces: every range is as in its line, ranges do not overlap, and names are parsed
 * within their buffer. */
#include "resolve/jit/jit_name.h"
#include "resolve/jit/perf_map.h"

#include <stdlib.h>
#include <string.h>

static void check_name(const struct perf_map_line *line)
{
    char *room = malloc(line->name_bytes + 1 + JIT_NAME_ROOM);
    struct jit_name name;
    if (!room)
        abort();
    memcpy(room, line->name, line->name_bytes);
    room[line->name_bytes] = '\0';
    jit_name_parse(room, &name);
    for (const char *at = name.function; *at; at++)
        if ((unsigned char)*at < 0x20)
            abort();
    if (strlen(name.file) > line->name_bytes || (name.line && !name.file[0]))
        abort();
    free(room);
}

static void check_range(const uint8_t *data, size_t size, const struct code_range *range)
{
    struct perf_map_line line;
    if (range->place >= size)
        abort();
    const char *text = (const char *)data + range->place, *feed = memchr(text, '\n', size - range->place);
    if (!feed || !perf_map_parse(text, (size_t)(feed - text), &line) || line.start != range->start || line.size != range->size ||
        line.name + line.name_bytes > feed)
        abort();
    check_name(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct code_ranges ranges = {0};
    struct code_range range;
    uint64_t bad = 0;
    int64_t taken = perf_map_take(&ranges, data, size / 2, 0, &bad);
    if (taken >= 0)
        taken += perf_map_take(&ranges, data + taken, size - (size_t)taken, (uint32_t)taken, &bad);
    if (taken > (int64_t)size)
        abort();
    size_t found = 0;
    for (const uint8_t *at = data; taken >= 0 && at < data + taken; at = memchr(at, '\n', size - (size_t)(at - data)), at = at ? at + 1 : data + size) {
        struct perf_map_line line;
        const uint8_t *feed = memchr(at, '\n', size - (size_t)(at - data));
        if (!feed || !perf_map_parse((const char *)at, (size_t)(feed - at), &line))
            continue;
        if (!code_ranges_find(&ranges, line.start, &range))
            continue; /* overwritten, and that one as well */
        check_range(data, size, &range);
        found += range.place == (uint32_t)(at - data);
    }
    if (taken >= 0 && found != ranges.count)
        abort();
    code_ranges_keep(&ranges, found / 2);
    if (ranges.count > found / 2)
        abort();
    code_ranges_clear(&ranges);
    return 0;
}
