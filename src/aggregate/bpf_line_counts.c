/* A hash table of lines; see bpf_line_counts.h. */
#include "aggregate/bpf_line_counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define NAME_BYTES 256
#define KEY_BYTES  (2 * NAME_BYTES + 16)

struct bpf_line_entry {
    struct bpf_line_count count; /* first: bpf_line_counts_next */
    UT_hash_handle hh;
    char key[]; /* function, file and line, each NUL-terminated */
};

void bpf_line_counts_clear(struct bpf_line_counts *c)
{
    struct bpf_line_entry *entry, *next;
    HASH_ITER (hh, c->all, entry, next) {
        HASH_DEL(c->all, entry);
        free(entry);
    }
}

/* Appends a name and its NUL. Returns the end of the key. */
static size_t put_name(char key[KEY_BYTES], size_t at, const char *name)
{
    const size_t size = strnlen(name, NAME_BYTES - 1);
    memcpy(key + at, name, size);
    key[at + size] = '\0';
    return at + size + 1;
}

/* Returns the entry of this line, or adds one. NULL: the table is full, or no memory. */
static struct bpf_line_entry *get_entry(struct bpf_line_counts *c, const char *function, const char *file,
                                        uint32_t line)
{
    char key[KEY_BYTES];
    const size_t file_at = put_name(key, 0, function), line_at = put_name(key, file_at, file);
    const size_t size = line_at + (size_t)snprintf(key + line_at, KEY_BYTES - line_at, "%" PRIu32, line) + 1;
    struct bpf_line_entry *entry;
    HASH_FIND(hh, c->all, key, size, entry);
    if (entry || HASH_COUNT(c->all) == BPF_LINE_COUNTS_MAX)
        return entry;
    entry = calloc(1, sizeof(*entry) + size);
    if (!entry)
        return NULL;
    memcpy(entry->key, key, size);
    entry->count = (struct bpf_line_count){.function = entry->key, .file = entry->key + file_at, .line = line};
    HASH_ADD(hh, c->all, key, size, entry);
    return entry;
}

void bpf_line_counts_add(struct bpf_line_counts *c, const char *function, const char *file, uint32_t line,
                         bool is_called)
{
    struct bpf_line_entry *entry = get_entry(c, function, file, line);
    if (!entry) {
        c->others++;
        return;
    }
    entry->count.samples++;
    entry->count.called += is_called;
}

static int compare_samples(const struct bpf_line_entry *a, const struct bpf_line_entry *b)
{
    return a->count.samples != b->count.samples ? (a->count.samples < b->count.samples ? 1 : -1)
                                                : strcmp(a->key, b->key);
}

const struct bpf_line_count *bpf_line_counts_first(struct bpf_line_counts *c)
{
    HASH_SORT(c->all, compare_samples);
    return c->all ? &c->all->count : NULL;
}

const struct bpf_line_count *bpf_line_counts_next(const struct bpf_line_count *line)
{
    const struct bpf_line_entry *entry = (const struct bpf_line_entry *)line;
    const struct bpf_line_entry *next = entry->hh.next;
    return next ? &next->count : NULL;
}
