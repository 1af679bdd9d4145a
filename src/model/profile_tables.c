/* The tables inside a profile; see profile_tables.h. Each is a plain array, which exporters index directly, with an
 * open addressing table of (hash, row index) alongside. The hash only finds candidates: rows are compared
 * completely, because joining two stacks of equal hash would be a silent error.
 *
 * All memory goes through table_resize(), which enforces the limit. Arrays grow by half: doubling would leave up to
 * half of a bounded profile empty. */
#include "model/profile_tables.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

struct slot {
    uint32_t hash;
    uint32_t row; /* index + 1; 0: free */
};

struct table {
    struct slot *slots; /* a power of two of them, at most three quarters full */
    uint32_t slot_count;
    uint32_t row_capacity;
};

#define HINTS 1024

struct profile_index {
    size_t max_bytes;
    size_t bytes; /* held, without strings */
    struct table frames, stacks, resources, links, labels, entries;
    uint32_t linked_entries, labelled_entries; /* of `entries` */
    size_t label_bytes;                        /* strings of sets of labels, each set counted as if it shared none */
    uint32_t stack_frame_capacity, label_text_capacity, moment_capacity;
    uint32_t *scratch;
    uint32_t scratch_capacity;
    uint32_t hints[HINTS]; /* frame + 1; see profile_put_whole_frame */
    uint32_t hint_count;
};

#define ROWS_MAX (UINT32_MAX / 4)

static size_t bytes_left(const struct profile *p)
{
    const struct profile_index *index = p->index;
    if (!index->max_bytes)
        return SIZE_MAX;
    size_t held = index->bytes + strings_bytes(p->strings);
    return held < index->max_bytes ? index->max_bytes - held : 0;
}

/* Resizes the array at `*array` from `*capacity` to `to` elements. */
static int table_resize(struct profile *p, void *array, uint32_t *capacity, uint32_t to, size_t element_bytes)
{
    void **at = array;
    size_t more = (size_t)(to - *capacity) * element_bytes;
    if (more > bytes_left(p))
        return -ENOSPC;
    void *grown = realloc(*at, to * element_bytes);
    if (!grown)
        return -ENOMEM;
    *at = grown;
    *capacity = to;
    p->index->bytes += more;
    return 0;
}

/* Reserves space for `need` elements. */
static int table_reserve(struct profile *p, void *array, uint32_t *capacity, uint32_t need, size_t element_bytes)
{
    if (need <= *capacity)
        return 0;
    if (need > ROWS_MAX)
        return -ENOSPC;
    uint32_t roomy = *capacity + *capacity / 2 + 16;
    if (roomy > need && table_resize(p, array, capacity, roomy, element_bytes) == 0)
        return 0;
    return table_resize(p, array, capacity, need, element_bytes); /* near the limit: exactly as many as needed */
}

static int table_rehash(struct profile *p, struct table *t)
{
    uint32_t count = t->slot_count ? t->slot_count * 2 : 32;
    size_t bytes = count * sizeof(*t->slots);
    if (bytes - t->slot_count * sizeof(*t->slots) > bytes_left(p))
        return -ENOSPC;
    struct slot *slots = calloc(count, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->slot_count; i++) {
        if (!t->slots[i].row)
            continue;
        uint32_t at = t->slots[i].hash & (count - 1);
        while (slots[at].row)
            at = (at + 1) & (count - 1);
        slots[at] = t->slots[i];
    }
    p->index->bytes += bytes - t->slot_count * sizeof(*slots);
    free(t->slots);
    t->slots = slots;
    t->slot_count = count;
    return 0;
}

/* Reserves space for one more row in both the array and the slots, before anything is written to either. */
static int table_prepare(struct profile *p, struct table *t, void *rows, uint32_t row_count, size_t row_bytes)
{
    int r = table_reserve(p, rows, &t->row_capacity, row_count + 1, row_bytes);
    if (r < 0)
        return r;
    return row_count + 1 > t->slot_count / 4 * 3 ? table_rehash(p, t) : 0;
}

static void table_link(struct table *t, uint32_t hash, uint32_t row)
{
    uint32_t at = hash & (t->slot_count - 1);
    while (t->slots[at].row)
        at = (at + 1) & (t->slot_count - 1);
    t->slots[at] = (struct slot){.hash = hash, .row = row + 1};
}

/* Iterates over the rows of a table whose hash is `hash`: `at` is the position, starting at `hash`; false at the
 * end. */
static bool table_next(const struct table *t, uint32_t hash, uint32_t *at, uint32_t *ret_row)
{
    while (t->slot_count) {
        const struct slot *slot = &t->slots[*at & (t->slot_count - 1)];
        if (!slot->row)
            return false;
        ++*at;
        if (slot->hash == hash) {
            *ret_row = slot->row - 1;
            return true;
        }
    }
    return false;
}

/* The row of `rows` whose first `key_bytes` equal `row`'s, or a new one with the contents of `row`. */
static int table_put(struct profile *p, struct table *t, void *rows, uint32_t *row_count, const void *row,
                     size_t row_bytes, size_t key_bytes, uint32_t *ret, bool *ret_is_new)
{
    char **array = rows;
    uint32_t hash = (uint32_t)XXH3_64bits(row, key_bytes), at = hash, found;
    while (table_next(t, hash, &at, &found))
        if (memcmp(*array + found * row_bytes, row, key_bytes) == 0) {
            *ret = found;
            *ret_is_new = false;
            return 0;
        }
    int r = table_prepare(p, t, rows, *row_count, row_bytes);
    if (r < 0)
        return r;
    memcpy(*array + *row_count * row_bytes, row, row_bytes);
    table_link(t, hash, *row_count);
    *ret = (*row_count)++;
    *ret_is_new = true;
    return 0;
}

/* Rows are hashed and compared as bytes, so they must not contain padding. */
static_assert(sizeof(struct profile_frame) == 6 * 4 + 8, "profile_frame has padding");
static_assert(sizeof(struct profile_resource) == 15 * 4, "profile_resource has padding");
static_assert(sizeof(struct trace_link) == 3 * 8, "trace_link has padding");
static_assert(offsetof(struct profile_entry, count) == 6 * 4, "the key of profile_entry has padding");

int profile_tables_new(size_t max_bytes, struct profile *p)
{
    p->index = calloc(1, sizeof(*p->index));
    if (!p->index)
        return -ENOMEM;
    p->index->max_bytes = max_bytes;
    p->index->hint_count = HINTS;
    p->index->bytes = sizeof(*p) + sizeof(*p->index);
    return strings_new(&p->strings);
}

void profile_set_max_bytes(struct profile *p, size_t max_bytes)
{
    p->index->max_bytes = max_bytes;
}

void profile_limit_cache(struct profile *p, uint32_t entries)
{
    p->index->hint_count = entries < HINTS ? entries : HINTS;
}

void profile_tables_free(struct profile *p)
{
    strings_free(p->strings);
    free(p->frames);
    free(p->stack_frames);
    free(p->stacks);
    free(p->resources);
    free(p->links);
    free(p->label_texts);
    free(p->labels);
    free(p->entries);
    free(p->moments);
    if (!p->index)
        return;
    free(p->index->frames.slots);
    free(p->index->stacks.slots);
    free(p->index->resources.slots);
    free(p->index->links.slots);
    free(p->index->labels.slots);
    free(p->index->entries.slots);
    free(p->index->scratch);
    free(p->index);
}

size_t profile_bytes(const struct profile *p)
{
    return p->index->bytes + strings_bytes(p->strings);
}

int profile_put_text(struct profile *p, const char *text, uint32_t *ret)
{
    const struct profile_index *index = p->index;
    if (index->max_bytes)
        strings_set_max_bytes(p->strings, index->max_bytes > index->bytes ? index->max_bytes - index->bytes : 1);
    uint64_t dropped = strings_dropped(p->strings);
    uint32_t number = strings_add(p->strings, text);
    if (strings_dropped(p->strings) != dropped)
        return index->max_bytes ? -ENOSPC : -ENOMEM;
    *ret = number;
    return 0;
}

int profile_put_frame(struct profile *p, const struct profile_frame *frame, uint32_t *ret)
{
    bool is_new;
    return table_put(p, &p->index->frames, &p->frames, &p->frame_count, frame, sizeof(*frame), sizeof(*frame), ret,
                     &is_new);
}

static bool text_equals(const struct profile *p, uint32_t string, const char *text)
{
    return strcmp(profile_text(p, string), text ? text : "") == 0;
}

static uint32_t line_of(const struct frame *frame)
{
    return frame->line < PROFILE_LINE_MAX ? frame->line : PROFILE_LINE_MAX;
}

static bool frame_equals(const struct profile *p, const struct profile_frame *row, const struct frame *frame)
{
    return row->address == frame->address && row->line == line_of(frame) && row->kind == (uint32_t)frame->kind &&
           row->inlined == frame->inlined && text_equals(p, row->function, frame->function) &&
           text_equals(p, row->system_name, frame->system_name) && text_equals(p, row->file, frame->file) &&
           text_equals(p, row->mapping, frame->mapping) && text_equals(p, row->build_id, frame->build_id);
}

/* Stacks share most of their frames with earlier ones. A direct-mapped cache remembers the row of a frame by its
 * address and the address of its name; the frame is still compared completely, because the owner may have reused
 * that memory. Measured: 60 ns per frame, against 105 for four string lookups and a row lookup. */
int profile_put_whole_frame(struct profile *p, const struct frame *frame, uint32_t *ret)
{
    const uint64_t key[] = {frame->address + frame->line, (uintptr_t)frame->function};
    uint32_t *hint = &p->index->hints[XXH3_64bits(key, sizeof(key)) % p->index->hint_count];
    if (*hint && frame_equals(p, &p->frames[*hint - 1], frame)) {
        *ret = *hint - 1;
        return 0;
    }
    struct profile_frame row = {
        .line = line_of(frame), .kind = frame->kind & 0x7f, .inlined = frame->inlined, .address = frame->address};
    uint32_t number;
    int r = profile_put_text(p, frame->function, &row.function);
    if (r == 0)
        r = profile_put_text(p, frame->system_name, &row.system_name);
    if (r == 0)
        r = profile_put_text(p, frame->file, &row.file);
    if (r == 0)
        r = profile_put_text(p, frame->mapping, &row.mapping);
    if (r == 0)
        r = profile_put_text(p, frame->build_id, &row.build_id);
    if (r == 0)
        r = profile_put_frame(p, &row, &number);
    if (r < 0)
        return r;
    *hint = number + 1;
    *ret = number;
    return 0;
}

int profile_put_resource(struct profile *p, const struct profile_resource *resource, uint32_t *ret)
{
    bool is_new;
    return table_put(p, &p->index->resources, &p->resources, &p->resource_count, resource, sizeof(*resource),
                     sizeof(*resource), ret, &is_new);
}

static int put_link(struct profile *p, const struct trace_link *link, uint32_t *ret)
{
    uint32_t row = 0;
    bool is_new;
    int r =
        table_put(p, &p->index->links, &p->links, &p->link_count, link, sizeof(*link), sizeof(*link), &row, &is_new);
    if (r == 0)
        *ret = row + 1;
    return r;
}

/* Lists of indexes, stored end to end, and a row with the position of each. */
struct lists {
    struct table *table;
    uint32_t **numbers, *number_count, *number_capacity;
    struct profile_stack **rows;
    uint32_t *row_count;
};

static int list_put(struct profile *p, const struct lists *l, const uint32_t *numbers, uint32_t count, uint32_t *ret)
{
    size_t bytes = count * sizeof(*numbers);
    uint32_t hash = (uint32_t)XXH3_64bits(numbers, bytes), at = hash, found;
    while (table_next(l->table, hash, &at, &found)) {
        const struct profile_stack *row = &(*l->rows)[found];
        if (row->count == count && (!count || memcmp(*l->numbers + row->first, numbers, bytes) == 0)) {
            *ret = found;
            return 0;
        }
    }
    if (count > ROWS_MAX - *l->number_count)
        return -ENOSPC;
    int r = table_reserve(p, l->numbers, l->number_capacity, *l->number_count + count, sizeof(*numbers));
    if (r == 0)
        r = table_prepare(p, l->table, l->rows, *l->row_count, sizeof(**l->rows));
    if (r < 0)
        return r;
    if (count)
        memcpy(*l->numbers + *l->number_count, numbers, bytes);
    (*l->rows)[*l->row_count] = (struct profile_stack){.first = *l->number_count, .count = count};
    *l->number_count += count;
    table_link(l->table, hash, *l->row_count);
    *ret = (*l->row_count)++;
    return 0;
}

int profile_put_stack(struct profile *p, const uint32_t *frames, uint32_t count, uint32_t *ret)
{
    struct profile_index *index = p->index;
    const struct lists stacks = {&index->stacks, &p->stack_frames, &p->stack_frame_count, &index->stack_frame_capacity,
                                 &p->stacks,     &p->stack_count};
    return list_put(p, &stacks, frames, count, ret);
}

bool profile_has_room_for_labels(const struct profile *p)
{
    const struct profile_index *index = p->index;
    return !index->max_bytes || index->label_bytes + index->labelled_entries * sizeof(*p->entries) <
                                    index->max_bytes / PROFILE_LINKS_SHARE / 2;
}

int profile_put_labels(struct profile *p, const uint32_t *texts, uint32_t count, uint32_t *ret)
{
    struct profile_index *index = p->index;
    const struct lists sets = {&index->labels, &p->label_texts, &p->label_text_count, &index->label_text_capacity,
                               &p->labels,     &p->labels_count};
    assert(count > 0 && count % 2 == 0);
    const uint32_t before = p->labels_count;
    uint32_t row = 0;
    int r = list_put(p, &sets, texts, count, &row);
    if (r < 0)
        return r;
    for (uint32_t i = 0; p->labels_count > before && i < count; i++)
        index->label_bytes += sizeof(*texts) + strings_size(p->strings, texts[i]);
    *ret = row + 1;
    return 0;
}

int profile_put_entry(struct profile *p, const struct profile_entry *key, uint32_t *ret)
{
    uint32_t row = 0;
    bool is_new = false;
    int r = table_put(p, &p->index->entries, &p->entries, &p->entry_count, key, sizeof(*key),
                      offsetof(struct profile_entry, count), &row, &is_new);
    p->index->labelled_entries += is_new && key->labels;
    if (r == 0 && !is_new) {
        p->entries[row].count += key->count;
        p->entries[row].value += key->value;
    }
    if (r == 0)
        *ret = row;
    return r;
}

/* Counts rows only: with the slots and reserved capacity, actual memory is less than twice as much. */
static bool links_have_room(const struct profile *p)
{
    const size_t max_bytes = p->index->max_bytes / PROFILE_LINKS_SHARE / 2;
    return !p->index->max_bytes ||
           p->link_count * sizeof(*p->links) + p->index->linked_entries * sizeof(*p->entries) < max_bytes;
}

static int put_with_link(struct profile *p, const struct profile_entry *key, const struct trace_link *link,
                         uint32_t *ret)
{
    struct profile_entry linked = *key;
    const uint32_t before = p->entry_count;
    int r = links_have_room(p) ? put_link(p, link, &linked.link) : -ENOSPC;
    if (r == 0)
        r = profile_put_entry(p, &linked, ret);
    p->index->linked_entries += p->entry_count - before;
    return r;
}

int profile_put_linked_entry(struct profile *p, const struct profile_entry *key, const struct trace_link *link,
                             uint32_t *ret)
{
    struct profile_entry alone = *key;
    alone.link = 0;
    if (!trace_link_is_set(link))
        return profile_put_entry(p, &alone, ret);
    int r = put_with_link(p, key, link, ret);
    if (r != -ENOSPC)
        return r;
    r = profile_put_entry(p, &alone, ret);
    if (r < 0)
        return r;
    p->unlinked += key->count;
    return PROFILE_UNLINKED;
}

int profile_put_moment(struct profile *p, const struct profile_entry *key, const struct trace_link *link,
                       uint64_t unix_ns)
{
    struct profile_moment moment = {.unix_ns = unix_ns, .value = key->value};
    int r = table_reserve(p, &p->moments, &p->index->moment_capacity, p->moment_count + 1, sizeof(moment));
    if (r == 0)
        r = profile_put_linked_entry(p, key, link, &moment.entry);
    if (r >= 0)
        p->moments[p->moment_count++] = moment;
    return r;
}

int profile_scratch(struct profile *p, uint32_t count, uint32_t **ret)
{
    struct profile_index *index = p->index;
    int r = table_reserve(p, &index->scratch, &index->scratch_capacity, count ? count : 1, sizeof(*index->scratch));
    if (r == 0)
        *ret = index->scratch;
    return r;
}
