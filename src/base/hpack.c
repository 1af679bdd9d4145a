/* See hpack.h. */
#include "base/hpack.h"

#include "base/hpack_huffman.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STATIC_ENTRIES 61
#define ENTRY_OVERHEAD 32
#define ENTRIES_MAX    (HPACK_TABLE_MAX / ENTRY_OVERHEAD)
#define INTEGER_MAX    (1u << 28)
#define NAME_BYTES     16 /* the longest name that is kept has fewer */

struct hpack_entry {
    char *value; /* owned; NULL: empty, or not kept */
    uint32_t size, name_size;
    uint32_t value_size;
    uint8_t name;
    bool has_value;
};

/* The static table (appendix A): for each entry, the value if it is kept, the size of name and value, and the name. */
static const struct {
    const char *value;
    uint8_t size;
    uint8_t name;
} static_entries[STATIC_ENTRIES + 1] = {
    [1] = {"", 10, HPACK_OTHER},         [2] = {"GET", 10, HPACK_METHOD},       [3] = {"POST", 11, HPACK_METHOD},
    [4] = {"/", 6, HPACK_PATH},          [5] = {"/index.html", 16, HPACK_PATH}, [6] = {"", 11, HPACK_OTHER},
    [7] = {"", 12, HPACK_OTHER},         [8] = {"200", 10, HPACK_STATUS},       [9] = {"204", 10, HPACK_STATUS},
    [10] = {"206", 10, HPACK_STATUS},    [11] = {"304", 10, HPACK_STATUS},      [12] = {"400", 10, HPACK_STATUS},
    [13] = {"404", 10, HPACK_STATUS},    [14] = {"500", 10, HPACK_STATUS},      [15] = {"", 14, HPACK_OTHER},
    [16] = {"", 28, HPACK_OTHER},        [17] = {"", 15, HPACK_OTHER},          [18] = {"", 13, HPACK_OTHER},
    [19] = {"", 6, HPACK_OTHER},         [20] = {"", 27, HPACK_OTHER},          [21] = {"", 3, HPACK_OTHER},
    [22] = {"", 5, HPACK_OTHER},         [23] = {"", 13, HPACK_OTHER},          [24] = {"", 13, HPACK_OTHER},
    [25] = {"", 19, HPACK_OTHER},        [26] = {"", 16, HPACK_OTHER},          [27] = {"", 16, HPACK_OTHER},
    [28] = {"", 14, HPACK_OTHER},        [29] = {"", 16, HPACK_OTHER},          [30] = {"", 13, HPACK_OTHER},
    [31] = {"", 12, HPACK_CONTENT_TYPE}, [32] = {"", 6, HPACK_OTHER},           [33] = {"", 4, HPACK_OTHER},
    [34] = {"", 4, HPACK_OTHER},         [35] = {"", 6, HPACK_OTHER},           [36] = {"", 7, HPACK_OTHER},
    [37] = {"", 4, HPACK_OTHER},         [38] = {"", 4, HPACK_OTHER},           [39] = {"", 8, HPACK_OTHER},
    [40] = {"", 17, HPACK_OTHER},        [41] = {"", 13, HPACK_OTHER},          [42] = {"", 8, HPACK_OTHER},
    [43] = {"", 19, HPACK_OTHER},        [44] = {"", 13, HPACK_OTHER},          [45] = {"", 4, HPACK_OTHER},
    [46] = {"", 8, HPACK_OTHER},         [47] = {"", 12, HPACK_OTHER},          [48] = {"", 18, HPACK_OTHER},
    [49] = {"", 19, HPACK_OTHER},        [50] = {"", 5, HPACK_OTHER},           [51] = {"", 7, HPACK_OTHER},
    [52] = {"", 7, HPACK_OTHER},         [53] = {"", 11, HPACK_OTHER},          [54] = {"", 6, HPACK_OTHER},
    [55] = {"", 10, HPACK_OTHER},        [56] = {"", 25, HPACK_OTHER},          [57] = {"", 17, HPACK_OTHER},
    [58] = {"", 10, HPACK_OTHER},        [59] = {"", 4, HPACK_OTHER},           [60] = {"", 3, HPACK_OTHER},
    [61] = {"", 16, HPACK_OTHER},
};

/* The sizes of the names alone, where an entry has a value of its own that is not kept. */
static uint32_t static_name_size(uint32_t index)
{
    switch (index) {
    case 6:
    case 7:
        return 7; /* ":scheme" */
    case 16:
        return 15; /* "accept-encoding" */
    default:
        return static_entries[index].size - (uint32_t)strlen(static_entries[index].value);
    }
}

/* ---- the table ---- */

void hpack_decoder_init(struct hpack_decoder *d, bool is_joined)
{
    *d = (struct hpack_decoder){.limit = is_joined ? HPACK_TABLE_MAX : HPACK_TABLE_START, .is_joined = is_joined};
}

static struct hpack_entry *entry_at(const struct hpack_decoder *d, uint32_t age)
{
    return &d->entries[(d->newest + d->room - age) % d->room];
}

static void evict(struct hpack_decoder *d, uint32_t limit)
{
    while (d->count && d->size > limit) {
        struct hpack_entry *oldest = entry_at(d, d->count - 1);
        d->size -= oldest->size + ENTRY_OVERHEAD;
        d->bytes -= oldest->value ? oldest->value_size : 0;
        free(oldest->value);
        oldest->value = NULL;
        d->count--;
    }
}

void hpack_decoder_clear(struct hpack_decoder *d)
{
    evict(d, 0);
    free(d->entries);
    *d = (struct hpack_decoder){.limit = d->limit, .is_joined = d->is_joined};
}

void hpack_decoder_lose(struct hpack_decoder *d)
{
    evict(d, 0);
    d->is_joined = true;
    d->limit = HPACK_TABLE_MAX;
}

static int grow(struct hpack_decoder *d)
{
    const uint32_t room = d->room ? d->room * 2 : 8;
    struct hpack_entry *entries = calloc(room, sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    for (uint32_t age = 0; age < d->count; age++)
        entries[d->count - 1 - age] = *entry_at(d, age);
    free(d->entries);
    d->bytes += (room - d->room) * sizeof(*entries);
    d->entries = entries;
    d->room = room;
    d->newest = d->count ? d->count - 1 : room - 1;
    return 0;
}

/* Adds a field to the dynamic table. Copies the part of the value that is kept. */
static int insert(struct hpack_decoder *d, const struct hpack_field *field)
{
    if (field->size + ENTRY_OVERHEAD > d->limit) {
        evict(d, 0);
        return 0;
    }
    evict(d, d->limit - field->size - ENTRY_OVERHEAD);
    if (d->count == d->room) {
        const int r = grow(d);
        if (r < 0)
            return r;
    }
    const bool is_kept = field->name != HPACK_OTHER && field->name != HPACK_UNKNOWN && field->has_value;
    const size_t kept = field->value_size < HPACK_VALUE_MAX ? field->value_size : HPACK_VALUE_MAX;
    char *value = is_kept && kept ? malloc(kept) : NULL;
    if (is_kept && kept && !value)
        return -ENOMEM;
    if (value)
        memcpy(value, field->value, kept);
    d->newest = (d->newest + 1) % d->room;
    d->entries[d->newest] = (struct hpack_entry){.value = value,
                                                 .size = field->size,
                                                 .name_size = field->name_size,
                                                 .value_size = is_kept ? (uint32_t)kept : 0,
                                                 .name = (uint8_t)field->name,
                                                 .has_value = is_kept};
    d->bytes += value ? kept : 0;
    d->size += field->size + ENTRY_OVERHEAD;
    d->count++;
    return 0;
}

/* ---- blocks ---- */

struct block {
    struct hpack_decoder *decoder;
    const uint8_t *data;
    size_t size, at;
    char value[HPACK_VALUE_MAX];
};

static int read_integer(struct block *b, unsigned bits, uint32_t *ret)
{
    const uint32_t most = (1u << bits) - 1;
    uint32_t value = b->data[b->at++] & most;
    if (value < most) {
        *ret = value;
        return 0;
    }
    for (unsigned shift = 0; b->at < b->size && shift <= 21; shift += 7) {
        const uint8_t byte = b->data[b->at++];
        value += (uint32_t)(byte & 127) << shift;
        if (!(byte & 128)) {
            *ret = value;
            return value < INTEGER_MAX ? 0 : -EBADMSG;
        }
    }
    return -EBADMSG;
}

/* Writes the first `room` bytes of a text to `out`; `*ret_size`: how many it has. */
static int read_text(struct block *b, char *out, size_t room, size_t *ret_size)
{
    uint32_t size;
    if (b->at >= b->size)
        return -EBADMSG;
    const bool is_huffman = b->data[b->at] & 128;
    const int r = read_integer(b, 7, &size);
    if (r < 0 || size > b->size - b->at)
        return -EBADMSG;
    const uint8_t *text = b->data + b->at;
    b->at += size;
    if (!is_huffman) {
        memcpy(out, text, size < room ? size : room);
        *ret_size = size;
        return 0;
    }
    const int64_t decoded = hpack_huffman_decode(text, size, out, room);
    *ret_size = decoded < 0 ? 0 : (size_t)decoded;
    return decoded < 0 ? -EBADMSG : 0;
}

/* Sets `field` to the entry with this index, which is not 0. */
static int find_entry(const struct hpack_decoder *d, uint32_t index, struct hpack_field *field)
{
    if (index <= STATIC_ENTRIES) {
        const char *value = static_entries[index].value;
        *field = (struct hpack_field){.name = static_entries[index].name,
                                      .has_value = static_entries[index].name != HPACK_OTHER,
                                      .size = static_entries[index].size,
                                      .name_size = static_name_size(index),
                                      .value = value,
                                      .value_size = strlen(value)};
        return 0;
    }
    const uint32_t age = index - STATIC_ENTRIES - 1;
    if (age >= d->count) {
        *field = (struct hpack_field){.name = HPACK_UNKNOWN, .value = ""};
        return d->is_joined ? 0 : -EBADMSG;
    }
    const struct hpack_entry *e = entry_at(d, age);
    *field = (struct hpack_field){.name = e->name,
                                  .has_value = e->has_value,
                                  .size = e->size,
                                  .name_size = e->name_size,
                                  .value = e->value ? e->value : "",
                                  .value_size = e->value_size};
    return 0;
}

static enum hpack_name find_name(const char *name, size_t size)
{
    static const char *const names[HPACK_NAMES] = {[HPACK_METHOD] = ":method",
                                                   [HPACK_PATH] = ":path",
                                                   [HPACK_STATUS] = ":status",
                                                   [HPACK_CONTENT_TYPE] = "content-type",
                                                   [HPACK_GRPC_STATUS] = "grpc-status"};
    for (unsigned i = 0; i < HPACK_NAMES && size <= NAME_BYTES; i++)
        if (names[i] && strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
            return i;
    return HPACK_OTHER;
}

/* A field that is written out, with `bits` bits of the index of its name. */
static int read_literal(struct block *b, unsigned bits, struct hpack_field *field)
{
    uint32_t index, name_size;
    char name[NAME_BYTES];
    size_t size;
    int r = read_integer(b, bits, &index);
    if (r < 0)
        return r;
    if (index) {
        struct hpack_field named;
        r = find_entry(b->decoder, index, &named);
        if (r < 0)
            return r;
        name_size = named.name_size;
        *field = (struct hpack_field){.name = named.name};
    } else {
        r = read_text(b, name, sizeof(name), &size);
        if (r < 0)
            return r;
        name_size = (uint32_t)size;
        *field = (struct hpack_field){.name = find_name(name, size)};
    }
    r = read_text(b, b->value, sizeof(b->value), &size);
    if (r < 0)
        return r;
    field->name_size = name_size;
    field->size = name_size + (uint32_t)size;
    field->has_value = true;
    field->value = b->value;
    field->value_size = size;
    return 0;
}

static int read_field(struct block *b, struct hpack_field *field, bool *ret_is_field)
{
    const uint8_t first = b->data[b->at];
    uint32_t number;
    int r;
    *ret_is_field = true;
    if (first & 128) {
        r = read_integer(b, 7, &number);
        return r < 0 || !number ? -EBADMSG : find_entry(b->decoder, number, field);
    }
    if (first & 64) {
        r = read_literal(b, 6, field);
        return r < 0 ? r : insert(b->decoder, field);
    }
    if (first & 32) {
        *ret_is_field = false;
        r = read_integer(b, 5, &number);
        if (r < 0)
            return r;
        b->decoder->limit = number < HPACK_TABLE_MAX ? number : HPACK_TABLE_MAX;
        evict(b->decoder, b->decoder->limit);
        return 0;
    }
    return read_literal(b, 4, field);
}

int hpack_decode(struct hpack_decoder *d, const uint8_t *block, size_t size,
                 void (*take)(void *context, const struct hpack_field *field), void *context)
{
    struct block b = {.decoder = d, .data = block, .size = size};
    while (b.at < size) {
        struct hpack_field field;
        bool is_field;
        const int r = read_field(&b, &field, &is_field);
        if (r < 0) {
            hpack_decoder_lose(d);
            return r;
        }
        if (is_field)
            take(context, &field);
    }
    return 0;
}
