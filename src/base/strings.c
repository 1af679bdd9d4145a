/* A table of distinct strings; see strings.h. Open addressing over indexes; the characters are in chunks that never
 * move. */
#include "base/strings.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#define CHUNK_BYTES 4096

struct chunk {
    struct chunk *next;
    size_t size, capacity;
    char data[];
};

struct entry {
    const char *text;
    uint32_t length;
    uint32_t hash;
};

struct strings {
    struct chunk *chunks;
    struct entry *entries; /* by index */
    uint32_t count, capacity;
    uint32_t *slots; /* index + 1, or 0: free; a power of two of them, at most half full */
    uint32_t slot_count;
    size_t chunk_bytes;
    size_t max_bytes;
    uint64_t dropped;
};

static bool fits(const struct strings *s, size_t more)
{
    size_t held = strings_bytes(s);
    return !s->max_bytes || (held <= s->max_bytes && more <= s->max_bytes - held);
}

static const char *chunk_copy(struct strings *s, const char *text, size_t size)
{
    struct chunk *c = s->chunks;
    if (!c || c->capacity - c->size < size + 1) {
        bool is_large = size + 1 > CHUNK_BYTES / 4; /* gets a chunk of its own, and the current chunk stays in use */
        size_t capacity = is_large ? size + 1 : CHUNK_BYTES;
        if (!fits(s, sizeof(*c) + capacity))
            return NULL;
        struct chunk *fresh = malloc(sizeof(*c) + capacity);
        if (!fresh)
            return NULL;
        *fresh = (struct chunk){.capacity = capacity};
        struct chunk **at = is_large && c ? &c->next : &s->chunks;
        fresh->next = *at;
        *at = c = fresh;
        s->chunk_bytes += sizeof(*c) + capacity;
    }
    char *copy = c->data + c->size;
    memcpy(copy, text, size);
    copy[size] = '\0';
    c->size += size + 1;
    return copy;
}

/* Grows entries and slots together or neither: a mismatch would make a search run forever. */
static int strings_grow(struct strings *s)
{
    uint32_t capacity = s->capacity ? s->capacity * 2 : 64, slot_count = capacity * 2;
    if (!fits(s, (capacity - s->capacity) * sizeof(struct entry) + (slot_count - s->slot_count) * sizeof(uint32_t)))
        return -ENOSPC;
    _cleanup_free_ uint32_t *slots = calloc(slot_count, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    struct entry *entries = realloc(s->entries, capacity * sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    s->entries = entries;
    s->capacity = capacity;
    for (uint32_t i = 1; i < s->count; i++) { /* the empty string is never searched for */
        uint32_t slot = entries[i].hash & (slot_count - 1);
        while (slots[slot])
            slot = (slot + 1) & (slot_count - 1);
        slots[slot] = i + 1;
    }
    free(s->slots);
    s->slots = take_ptr(slots);
    s->slot_count = slot_count;
    return 0;
}

void strings_set_max_bytes(struct strings *s, size_t max_bytes)
{
    s->max_bytes = max_bytes;
}

int strings_new(struct strings **ret)
{
    _cleanup_(strings_freep) struct strings *s = calloc(1, sizeof(*s));
    if (!s || strings_grow(s) < 0)
        return -ENOMEM;
    const char *empty = chunk_copy(s, "", 0);
    if (!empty)
        return -ENOMEM;
    s->entries[s->count++] = (struct entry){.text = empty};
    *ret = take_ptr(s);
    return 0;
}

void strings_free(struct strings *s)
{
    if (!s)
        return;
    for (struct chunk *c = s->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(s->entries);
    free(s->slots);
    free(s);
}

uint32_t strings_add_n(struct strings *s, const char *text, size_t size)
{
    if (!size)
        return 0; /* index 0 exists from the start */
    uint32_t hash = (uint32_t)XXH3_64bits(text, size);
    uint32_t slot = hash & (s->slot_count - 1);
    for (; s->slots[slot]; slot = (slot + 1) & (s->slot_count - 1)) {
        const struct entry *e = &s->entries[s->slots[slot] - 1];
        if (e->hash == hash && e->length == size && memcmp(e->text, text, size) == 0)
            return s->slots[slot] - 1;
    }
    if (s->count == s->capacity) {
        if (s->count >= UINT32_MAX / 4 || strings_grow(s) < 0) {
            s->dropped++;
            return 0;
        }
        return strings_add_n(s, text, size); /* the slots have moved */
    }
    const char *copy = size > UINT32_MAX ? NULL : chunk_copy(s, text, size);
    if (!copy) {
        s->dropped++;
        return 0;
    }
    s->entries[s->count] = (struct entry){.text = copy, .length = size, .hash = hash};
    s->slots[slot] = s->count + 1;
    return s->count++;
}

uint32_t strings_add(struct strings *s, const char *text)
{
    return text ? strings_add_n(s, text, strlen(text)) : 0;
}

const char *strings_get(const struct strings *s, uint32_t index)
{
    return index < s->count ? s->entries[index].text : "";
}

size_t strings_size(const struct strings *s, uint32_t index)
{
    return index < s->count ? s->entries[index].length : 0;
}

uint32_t strings_count(const struct strings *s)
{
    return s->count;
}

size_t strings_bytes(const struct strings *s)
{
    return sizeof(*s) + s->chunk_bytes + s->capacity * sizeof(*s->entries) + s->slot_count * sizeof(*s->slots);
}

uint64_t strings_dropped(const struct strings *s)
{
    return s->dropped;
}
