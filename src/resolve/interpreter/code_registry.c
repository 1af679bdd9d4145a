/* See code_registry.h. A code costs 44 bytes, a content what it is and some 120 bytes. */
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
    size_t codes; /* that say this */
    uint64_t data[];
};
#define CONTENT_OVERHEAD 32 /* of the allocator, and of the table that it is in */

struct code {
    struct missing_code key;
    struct content *content;
    uint32_t next;         /* in the same place; of one that is free: the next free one; 0: none */
    uint32_t older, newer; /* by use. Of codes[0], which is no code: the newest, the oldest */
};
#define CODE_BYTES (sizeof(struct code) + sizeof(uint32_t)) /* with its place */
#define CODES_MAX  (16 << 20)

struct code_registry {
    struct code *codes; /* the first of all is none */
    uint32_t *places;   /* as many as codes at most: the first code of each; 0: none */
    uint32_t max_codes, made_codes, free_code;
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
    free(t->places);
    free(t);
}

/* The pages of what was never needed are none. */
int code_registry_new(size_t max_bytes, struct code_registry **ret)
{
    _cleanup_(code_registry_freep) struct code_registry *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    const size_t max_codes = max_bytes / 8 * 5 / CODE_BYTES;
    t->max_codes = max_codes < 1 ? 1 : max_codes < CODES_MAX ? (uint32_t)max_codes : CODES_MAX;
    t->max_content_bytes = max_bytes / 8 * 3;
    t->codes = calloc((size_t)t->max_codes + 1, sizeof(*t->codes));
    t->places = calloc(t->max_codes, sizeof(*t->places));
    if (!t->codes || !t->places)
        return -ENOMEM;
    *ret = take_ptr(t);
    return 0;
}

/* Where the number of the code stands, or would: 0 there: it is not known. */
static uint32_t *find(struct code_registry *t, const struct missing_code *key)
{
    const uint64_t hash = python_told_hash(key->pid, key->code, key->check);
    uint32_t *at = &t->places[(hash >> 32) % t->max_codes];
    while (*at && memcmp(&t->codes[*at].key, key, sizeof(*key)) != 0)
        at = &t->codes[*at].next;
    return at;
}

static void take_out_of_order(struct code_registry *t, const struct code *c)
{
    t->codes[c->older].newer = c->newer;
    t->codes[c->newer].older = c->older;
}

static void put_newest(struct code_registry *t, struct code *c)
{
    struct code *ends = &t->codes[0];
    const uint32_t number = (uint32_t)(c - ends);
    c->older = ends->older;
    c->newer = 0;
    t->codes[c->older].newer = number;
    ends->older = number;
}

static void forget(struct code_registry *t, uint32_t *at)
{
    const uint32_t number = *at;
    struct code *c = &t->codes[number];
    *at = c->next;
    take_out_of_order(t, c);
    if (--c->content->codes == 0)
        content_free(t, c->content);
    c->next = t->free_code;
    t->free_code = number;
}

/* What there is no room for in the list is asked for when it is met. */
static void note_missing(struct code_registry *t, const struct missing_code *key)
{
    if (t->missing_count < MISSING_MAX)
        t->missing[t->missing_count++] = *key;
}

static void forget_oldest(struct code_registry *t)
{
    const struct missing_code key = t->codes[t->codes[0].newer].key;
    forget(t, find(t, &key));
    note_missing(t, &key);
    t->forgotten++;
}

/* NULL: memory is out. */
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

/* With room for it; NULL: memory is out. */
static struct content *content_of(struct code_registry *t, const void *data, size_t bytes)
{
    struct content *c;
    HASH_FIND(hh, t->contents, data, bytes, c);
    if (c)
        return c;
    while (t->codes[0].newer && t->content_bytes + content_bytes(bytes) > t->max_content_bytes)
        forget_oldest(t);
    return content_new(t, data, bytes);
}

/* One that is free, with room made for it. */
static struct code *code_new(struct code_registry *t)
{
    if (!t->free_code && t->made_codes < t->max_codes)
        return &t->codes[++t->made_codes];
    if (!t->free_code)
        forget_oldest(t);
    struct code *c = &t->codes[t->free_code];
    t->free_code = c->next;
    return c;
}

void code_registry_put(struct code_registry *t, const struct missing_code *key, const void *data, size_t bytes)
{
    struct content *content = content_of(t, data, bytes);
    if (!content)
        return;
    content->codes++; /* first: it is to stay while room is made */
    uint32_t *at = find(t, key);
    if (*at) /* told once more */
        forget(t, at);
    struct code *c = code_new(t);
    at = find(t, key); /* room was made */
    *c = (struct code){.key = *key, .content = content};
    *at = (uint32_t)(c - t->codes);
    put_newest(t, c);
}

bool code_registry_find(struct code_registry *t, const struct missing_code *key, struct registered_code *ret)
{
    const uint32_t number = *find(t, key);
    if (!number) {
        if (key->check) /* else it could not be read */
            note_missing(t, key);
        return false;
    }
    struct code *code = &t->codes[number];
    take_out_of_order(t, code);
    put_newest(t, code);
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
    return sizeof(*t) + t->made_codes * CODE_BYTES + t->content_bytes;
}

uint64_t code_registry_forgotten(const struct code_registry *t)
{
    return t->forgotten;
}
