/* Registry of described code; see code_registry.h. A code entry costs 44 bytes; a description costs its own size and
 * about 120 bytes. */
#include "resolve/interpreter/code_registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define MISSING_MAX 1024

struct content {
    UT_hash_handle hh;
    uint64_t id;
    size_t codes; /* references */
    uint64_t data[];
};
#define CONTENT_OVERHEAD 32 /* overhead of the allocator and of the hash table */

struct code {
    struct missing_code key;
    struct content *content;
    uint32_t next;         /* the next entry of the hash chain, or of the free list if this one is free; 0: end */
    uint32_t older, newer; /* indices of the LRU list; codes[0] is its head */
};
#define CODE_BYTES (sizeof(struct code) + sizeof(uint32_t)) /* including its bucket */
#define CODES_MAX  (16 << 20)

struct code_registry {
    struct code *codes; /* index 0 is the head of the LRU list */
    uint32_t *buckets;  /* hash buckets, max_codes of them: index of the first code of each chain; 0: empty */
    uint32_t max_codes, used_codes, free_code;
    struct content *contents;
    size_t content_bytes, max_content_bytes;
    uint64_t next_id, forgotten;
    size_t missing_count;
    struct missing_code missing[MISSING_MAX];
};

static size_t content_bytes(size_t data_bytes)
{
    return CONTENT_OVERHEAD + sizeof(struct content) + data_bytes;
}

static void content_free(struct code_registry *t, struct content *c)
{
    HASH_DEL(t->contents, c);
    t->content_bytes -= content_bytes(c->hh.keylen);
    free(c);
}

void code_registry_free(struct code_registry *t)
{
    if (!t)
        return;
    while (t->contents)
        content_free(t, t->contents);
    free(t->codes);
    free(t->buckets);
    free(t);
}

/* calloc leaves pages that are never used unbacked, so an idle registry costs little. */
int code_registry_new(size_t max_bytes, struct code_registry **ret)
{
    _cleanup_(code_registry_freep) struct code_registry *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    const size_t max_codes = max_bytes / 8 * 5 / CODE_BYTES;
    t->max_codes = max_codes < 1 ? 1 : max_codes < CODES_MAX ? (uint32_t)max_codes : CODES_MAX;
    t->max_content_bytes = max_bytes / 8 * 3;
    t->codes = calloc((size_t)t->max_codes + 1, sizeof(*t->codes));
    t->buckets = calloc(t->max_codes, sizeof(*t->buckets));
    if (!t->codes || !t->buckets)
        return -ENOMEM;
    *ret = take_ptr(t);
    return 0;
}

/* The link of the hash chain that holds the code's index; *link is 0 when the code is not registered. */
static uint32_t *find_link(struct code_registry *t, const struct missing_code *key)
{
    const uint64_t hash = emitted_code_hash(key->pid, key->code, key->check);
    uint32_t *at = &t->buckets[(hash >> 32) % t->max_codes];
    while (*at && memcmp(&t->codes[*at].key, key, sizeof(*key)) != 0)
        at = &t->codes[*at].next;
    return at;
}

static void lru_remove(struct code_registry *t, const struct code *c)
{
    t->codes[c->older].newer = c->newer;
    t->codes[c->newer].older = c->older;
}

static void lru_add_newest(struct code_registry *t, struct code *c)
{
    struct code *ends = &t->codes[0];
    const uint32_t number = (uint32_t)(c - ends);
    c->older = ends->older;
    c->newer = 0;
    t->codes[c->older].newer = number;
    ends->older = number;
}

static void evict(struct code_registry *t, uint32_t *at)
{
    const uint32_t number = *at;
    struct code *c = &t->codes[number];
    *at = c->next;
    lru_remove(t, c);
    if (--c->content->codes == 0)
        content_free(t, c->content);
    c->next = t->free_code;
    t->free_code = number;
}

/* Keys that do not fit in the list are noted when a sample refers to them again. */
static void note_missing(struct code_registry *t, const struct missing_code *key)
{
    if (t->missing_count < MISSING_MAX)
        t->missing[t->missing_count++] = *key;
}

static void evict_oldest(struct code_registry *t)
{
    const struct missing_code key = t->codes[t->codes[0].newer].key;
    evict(t, find_link(t, &key));
    note_missing(t, &key);
    t->forgotten++;
}

/* NULL: out of memory. */
static struct content *content_new(struct code_registry *t, const void *data, size_t bytes)
{
    struct content *c = malloc(sizeof(*c) + bytes);
    if (!c)
        return NULL;
    memset(c, 0, sizeof(*c));
    c->id = ++t->next_id;
    memcpy(c->data, data, bytes);
    HASH_ADD_KEYPTR(hh, t->contents, c->data, bytes, c);
    if (!c->hh.tbl) {
        free(c);
        return NULL;
    }
    t->content_bytes += content_bytes(bytes);
    return c;
}

/* The stored description equal to `data`, or a new one; evicts until it fits. NULL: out of memory. */
static struct content *content_of(struct code_registry *t, const void *data, size_t bytes)
{
    struct content *c;
    HASH_FIND(hh, t->contents, data, bytes, c);
    if (c)
        return c;
    while (t->codes[0].newer && t->content_bytes + content_bytes(bytes) > t->max_content_bytes)
        evict_oldest(t);
    return content_new(t, data, bytes);
}

/* A free entry, evicting the oldest if necessary. */
static struct code *code_new(struct code_registry *t)
{
    if (!t->free_code && t->used_codes < t->max_codes)
        return &t->codes[++t->used_codes];
    if (!t->free_code)
        evict_oldest(t);
    struct code *c = &t->codes[t->free_code];
    t->free_code = c->next;
    return c;
}

void code_registry_put(struct code_registry *t, const struct missing_code *key, const void *data, size_t bytes)
{
    struct content *content = content_of(t, data, bytes);
    if (!content)
        return;
    content->codes++; /* take the reference first: the evictions below must not free it */
    uint32_t *at = find_link(t, key);
    if (*at)
        evict(t, at);
    struct code *c = code_new(t);
    at = find_link(t, key); /* eviction may have changed the chain */
    *c = (struct code){.key = *key, .content = content};
    *at = (uint32_t)(c - t->codes);
    lru_add_newest(t, c);
}

bool code_registry_find(struct code_registry *t, const struct missing_code *key, struct registered_code *ret)
{
    const uint32_t number = *find_link(t, key);
    if (!number) {
        if (key->check) /* a check of 0: the BPF side could not read the code object */
            note_missing(t, key);
        return false;
    }
    struct code *code = &t->codes[number];
    lru_remove(t, code);
    lru_add_newest(t, code);
    *ret = (struct registered_code){.id = code->content->id, .data = (const uint8_t *)code->content->data};
    return true;
}

size_t code_registry_missing(struct code_registry *t, struct missing_code *ret, size_t max)
{
    const size_t count = t->missing_count < max ? t->missing_count : max;
    t->missing_count -= count;
    memcpy(ret, &t->missing[t->missing_count], count * sizeof(*ret));
    return count;
}

size_t code_registry_bytes(const struct code_registry *t)
{
    return sizeof(*t) + t->used_codes * CODE_BYTES + t->content_bytes;
}

uint64_t code_registry_evicted(const struct code_registry *t)
{
    return t->forgotten;
}
