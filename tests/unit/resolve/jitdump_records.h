/* A jitdump built in memory, record by record. */
#pragma once

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct dump {
    uint8_t data[65536];
    size_t size;
};

static inline void dump_put(struct dump *d, const void *data, size_t size)
{
    if (size > sizeof(d->data) - d->size)
        abort();
    if (size)
        memcpy(d->data + d->size, data, size);
    d->size += size;
}

static inline void dump_header(struct dump *d, uint32_t pid)
{
#if defined(__aarch64__)
    const uint32_t machine = EM_AARCH64;
#else
    const uint32_t machine = EM_X86_64;
#endif
    const uint32_t words[] = {0x4a695444, 1, 40, machine, 0, pid};
    const uint64_t longs[] = {1, 0};
    d->size = 0;
    dump_put(d, words, sizeof(words));
    dump_put(d, longs, sizeof(longs));
}

static inline void dump_record(struct dump *d, uint32_t kind, uint64_t time_ns, const uint64_t *longs, size_t count,
                               const void *rest, size_t rest_bytes)
{
    const uint32_t head[] = {kind, (uint32_t)(16 + count * 8 + rest_bytes)};
    dump_put(d, head, sizeof(head));
    dump_put(d, &time_ns, 8);
    dump_put(d, longs, count * 8);
    dump_put(d, rest, rest_bytes);
}

/* Code bytes are 0xcc. */
static inline void dump_load(struct dump *d, uint64_t time_ns, uint64_t address, uint64_t size, const char *name)
{
    const uint64_t longs[] = {0, address, address, size, 1};
    char rest[4096];
    const size_t name_bytes = strlen(name) + 1;
    if (name_bytes + size > sizeof(rest))
        abort();
    memcpy(rest, name, name_bytes);
    memset(rest + name_bytes, 0xcc, size);
    dump_record(d, 0, time_ns, longs, 5, rest, name_bytes + size);
}

static inline void dump_move(struct dump *d, uint64_t time_ns, uint64_t from, uint64_t to, uint64_t size)
{
    const uint64_t longs[] = {0, from, from, to, size, 1};
    dump_record(d, 1, time_ns, longs, 6, NULL, 0);
}

struct dump_line {
    uint64_t address;
    uint32_t line;
    const char *file; /* NULL: the same as before */
};

static inline void dump_lines(struct dump *d, uint64_t time_ns, uint64_t address, const struct dump_line *lines,
                              size_t count)
{
    char rest[4096];
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *file = lines[i].file ? lines[i].file : "\xff";
        if (bytes + 16 + strlen(file) + 1 > sizeof(rest))
            abort();
        memcpy(rest + bytes, &lines[i].address, 8);
        memcpy(rest + bytes + 8, &(uint32_t[]){lines[i].line, 0}, 8);
        memcpy(rest + bytes + 16, file, strlen(file) + 1);
        bytes += 16 + strlen(file) + 1;
    }
    dump_record(d, 2, time_ns, (const uint64_t[]){address, count}, 2, rest, bytes);
}
