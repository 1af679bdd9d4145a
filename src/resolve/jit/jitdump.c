/* Parser of jitdumps; see jitdump.h. */
#include "resolve/jit/jitdump.h"

#include "base/cursor.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#define MAGIC         0x4a695444u /* "JiTD" */
#define MAGIC_SWAPPED 0x4454694au
#define VERSION       1
#define ARCH_TIMES    1 /* flag in the header: architectural timestamps */
#define PREFIX_BYTES  16
#define HEADER_BYTES  40
#define ADDRESS_MAX   ((uint64_t)1 << 57)
#define LINES_MAX     65536 /* maximum size of a debug info record; larger ones are ignored */
#define NAME_MAX      4096
#define DESCRIBED_MAX 8 /* maximum distance, in records, from a debug info record to its code */

#if defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

enum kind { CODE_LOAD = 0, CODE_MOVE = 1, CODE_DEBUG_INFO = 2, CODE_CLOSE = 3 };

struct prefix {
    uint32_t kind, bytes;
    uint64_t time_ns;
};

int jitdump_header_parse(const void *data, size_t bytes, struct jitdump_header *ret)
{
    struct cursor c = cursor_make(data, bytes);
    const uint32_t magic = cursor_u32(&c), version = cursor_u32(&c), size = cursor_u32(&c), machine = cursor_u32(&c);
    cursor_skip(&c, 4);
    const uint32_t pid = cursor_u32(&c);
    cursor_skip(&c, 8);
    const uint64_t flags = cursor_u64(&c);
    if (bytes >= 4 && magic == MAGIC_SWAPPED)
        return -ENOTSUP;
    if (bytes >= 4 && magic != MAGIC)
        return -EBADMSG;
    if (c.failed)
        return -EAGAIN;
    if (version != VERSION || machine != MACHINE)
        return -ENOTSUP;
    if (size < HEADER_BYTES || size > JITDUMP_HEADER_MAX)
        return -EBADMSG;
    *ret = (struct jitdump_header){size, pid, !(flags & ARCH_TIMES)};
    return 0;
}

static struct prefix read_prefix(struct cursor *c)
{
    struct prefix p = {.kind = cursor_u32(c)};
    p.bytes = cursor_u32(c);
    p.time_ns = cursor_u64(c);
    return p;
}

static bool is_valid_range(uint64_t start, uint64_t size)
{
    return size > 0 && size <= UINT32_MAX && start < ADDRESS_MAX;
}

static int add_load(struct code_ranges *ranges, struct jitdump_reading *reading, struct cursor *c, uint32_t place,
                    uint64_t *bad)
{
    cursor_skip(c, 16); /* pid, tid, and vma, which repeats the address */
    const uint64_t start = cursor_u64(c), size = cursor_u64(c);
    const bool has_lines = reading->debug_address == start;
    reading->debug_address = UINT64_MAX;
    if (c->failed || !is_valid_range(start, size)) {
        ++*bad;
        return 0;
    }
    const struct code_range range = {start, (uint32_t)size, has_lines ? reading->debug_place : place};
    return code_ranges_put(ranges, &range);
}

static int apply_move(struct code_ranges *ranges, struct cursor *c, uint64_t *bad)
{
    cursor_skip(c, 16);
    const uint64_t from = cursor_u64(c), to = cursor_u64(c), size = cursor_u64(c);
    struct code_range range;
    if (c->failed || !is_valid_range(from, size) || !is_valid_range(to, size)) {
        ++*bad;
        return 0;
    }
    const bool known = code_ranges_find(ranges, from, &range) && range.start == from;
    if (known)
        code_ranges_remove(ranges, from, 1);
    code_ranges_remove(ranges, to, (uint32_t)size);
    if (!known || range.size != size)
        return 0;
    range.start = to;
    return code_ranges_put(ranges, &range);
}

static int apply_record(struct code_ranges *ranges, struct jitdump_reading *reading, const struct prefix *p,
                        struct cursor *c, uint32_t place, uint64_t *bad)
{
    switch (p->kind) {
    case CODE_LOAD:
        return add_load(ranges, reading, c, place, bad);
    case CODE_MOVE:
        return apply_move(ranges, c, bad);
    case CODE_DEBUG_INFO:
        reading->debug_address = p->bytes <= LINES_MAX ? cursor_u64(c) : UINT64_MAX;
        reading->debug_place = place;
        return 0;
    case CODE_CLOSE:
        reading->closed = true;
        return 0;
    default: /* unwinding info and unknown kinds */
        return 0;
    }
}

int64_t jitdump_take(struct code_ranges *ranges, struct jitdump_reading *reading, const void *data, size_t bytes,
                     uint32_t place, uint64_t *bad)
{
    uint64_t at = 0;
    reading->next_ns = 0;
    while (at < bytes && !reading->closed) {
        const size_t left = bytes - (size_t)at;
        struct cursor c = cursor_make((const uint8_t *)data + at, left);
        const struct prefix p = read_prefix(&c);
        if (left < PREFIX_BYTES)
            break;
        if (p.bytes < PREFIX_BYTES)
            return -EBADMSG;
        if (left < p.bytes && left < JITDUMP_PIECE_MIN)
            break;
        if (reading->has_times && p.time_ns > reading->until_ns) {
            reading->next_ns = p.time_ns;
            break;
        }
        struct cursor body =
            cursor_sub(&c, p.bytes - PREFIX_BYTES < cursor_left(&c) ? p.bytes - PREFIX_BYTES : cursor_left(&c));
        int r = apply_record(ranges, reading, &p, &body, place + (uint32_t)at, bad);
        if (r < 0)
            return r;
        at += p.bytes;
    }
    return (int64_t)at;
}

size_t jitdump_described_bytes(const void *data, size_t bytes)
{
    struct cursor c = cursor_make(data, bytes);
    const struct prefix p = read_prefix(&c);
    return p.kind == CODE_DEBUG_INFO && p.bytes <= LINES_MAX ? p.bytes + NAME_MAX : NAME_MAX;
}

/* Sets the line of `address`: the line of the last entry at or before it. */
static void find_line(struct cursor c, uint64_t address, struct jitdump_code *ret)
{
    const char *file = "", *found = "";
    uint32_t found_line = 0;
    uint64_t best = 0;
    const uint64_t count = cursor_u64(&c);
    for (uint64_t i = 0; i < count && !c.failed; i++) {
        const uint64_t at = cursor_u64(&c);
        const uint32_t line = cursor_u32(&c);
        cursor_skip(&c, 4); /* discriminator */
        const char *name = cursor_string(&c);
        if (!name)
            break;
        if (strcmp(name, "\xff") != 0) /* "\xff": the same file as in the previous entry */
            file = name;
        if (at <= address && at >= best) {
            best = at;
            found = file;
            found_line = line;
        }
    }
    ret->file = found;
    ret->line = found_line;
}

bool jitdump_describe(const void *data, size_t bytes, uint64_t distance, uint64_t lines_add, struct jitdump_code *ret)
{
    struct cursor c = cursor_make(data, bytes), lines = cursor_make(NULL, 0);
    uint64_t lines_of = UINT64_MAX;
    for (unsigned n = 0; n < DESCRIBED_MAX; n++) {
        const struct prefix p = read_prefix(&c);
        if (c.failed || p.bytes < PREFIX_BYTES)
            return false;
        const size_t left = cursor_left(&c), body_bytes = p.bytes - PREFIX_BYTES;
        struct cursor body = cursor_sub(&c, body_bytes < left ? body_bytes : left);
        if (p.kind == CODE_DEBUG_INFO && n == 0) {
            lines_of = cursor_u64(&body);
            lines = body;
        }
        if (p.kind == CODE_LOAD) {
            cursor_skip(&body, 16);
            struct jitdump_code code = {.start = cursor_u64(&body), .file = ""};
            code.size = (uint32_t)cursor_u64(&body);
            cursor_skip(&body, 8);
            code.name = cursor_string(&body);
            if (!code.name || (n > 0 && lines_of != code.start))
                return false;
            if (n > 0)
                find_line(lines, code.start + distance + lines_add, &code);
            *ret = code;
            return true;
        }
        if (body_bytes > left || n + 1 == DESCRIBED_MAX || (n == 0 && p.kind != CODE_DEBUG_INFO))
            return false;
    }
    return false;
}
