/* The records lie back to back in one anonymous mapping of max_bytes; only its used part is resident. A
 * separate index of offsets is sorted by time; the records themselves do not move. */
#include "sources/events/batch.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory that may stay resident from one batch to the next. */
#define BATCH_KEEP_BYTES ((size_t)1 << 20)

struct batch_entry {
    uint64_t time_ns;
    uint32_t offset;
    uint32_t order;
};

struct batch {
    record_check *check;
    uint8_t *data;
    size_t max_bytes, used_bytes;
    struct batch_entry *entries;
    size_t count, capacity;
    size_t held; /* number of entries at the end that belong to the next batch */
    uint64_t began_ns;
    uint64_t cut_ns; /* the earliest batch_cut_at since batch_begin; UINT64_MAX: none */
};

int batch_new(size_t max_bytes, record_check *check, struct batch **ret)
{
    assert(check);
    _cleanup_(batch_freep) struct batch *b = calloc(1, sizeof(*b));

    if (!b)
        return -ENOMEM;
    if (max_bytes < RECORD_MAX_BYTES || max_bytes > UINT32_MAX)
        return -EINVAL;
    b->max_bytes = max_bytes;
    b->check = check;
    b->cut_ns = UINT64_MAX;
    b->data = mmap(NULL, max_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->data == MAP_FAILED) {
        b->data = NULL;
        return -ENOMEM;
    }
    *ret = take_ptr(b);
    return 0;
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    if (b->data)
        munmap(b->data, b->max_bytes);
    free(b->entries);
    free(b);
}

static size_t align_record_bytes(size_t size_bytes)
{
    return (size_bytes + 7) & ~(size_t)7;
}

void *batch_reserve(struct batch *b, size_t size_bytes)
{
    size_t size = align_record_bytes(size_bytes);
    struct record_header *header;

    if (size < sizeof(*header) || size > RECORD_MAX_BYTES || size > b->max_bytes - b->used_bytes)
        return NULL;
    if (b->count == b->capacity) {
        size_t capacity = b->capacity ? b->capacity * 2 : 256;
        struct batch_entry *entries = reallocarray(b->entries, capacity, sizeof(*entries));

        if (!entries)
            return NULL;
        b->entries = entries;
        b->capacity = capacity;
    }
    header = (struct record_header *)(b->data + b->used_bytes);
    memset(header, 0, size);
    header->size_bytes = (uint32_t)size;
    b->entries[b->count] = (struct batch_entry){.offset = (uint32_t)b->used_bytes, .order = (uint32_t)b->count};
    b->count++;
    b->used_bytes += size;
    return header;
}

int batch_add(struct batch *b, const struct record_header *header)
{
    void *to;

    if (!b->check(header))
        return -EBADMSG;
    to = batch_reserve(b, header->size_bytes);
    if (!to)
        return -ENOSPC;
    memcpy(to, header, header->size_bytes);
    return 0;
}

static int compare_entries(const void *a, const void *b)
{
    const struct batch_entry *x = a, *y = b;

    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_by_time(struct batch *b)
{
    bool sorted = true;

    for (size_t i = 0; i < b->count; i++) {
        b->entries[i].time_ns = batch_get(b, i)->time_ns;
        b->entries[i].order = (uint32_t)i;
        if (i > 0 && b->entries[i].time_ns < b->entries[i - 1].time_ns)
            sorted = false;
    }
    if (!sorted)
        qsort(b->entries, b->count, sizeof(b->entries[0]), compare_entries);
}

static int compare_offsets(const void *a, const void *b)
{
    const struct batch_entry *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static size_t record_bytes(const struct batch *b, const struct batch_entry *entry)
{
    const struct record_header *header = (const struct record_header *)(b->data + entry->offset);

    return align_record_bytes(header->size_bytes);
}

/* Returns the pages beyond `used_bytes` to the kernel if the batch has grown large. */
static void shrink_to(struct batch *b, size_t used_bytes)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), from = (used_bytes + page_bytes - 1) & -page_bytes;

    if (b->used_bytes > BATCH_KEEP_BYTES && from < b->max_bytes)
        (void)madvise(b->data + from, b->max_bytes - from, MADV_DONTNEED);
    b->used_bytes = used_bytes;
}

void batch_begin(struct batch *b, uint64_t now_ns)
{
    size_t held = b->held, used_bytes = 0;

    b->began_ns = now_ns;
    b->cut_ns = UINT64_MAX;
    if (!held) {
        batch_clear(b);
        return;
    }
    memmove(b->entries, b->entries + b->count - held, held * sizeof(b->entries[0]));
    qsort(b->entries, held, sizeof(b->entries[0]), compare_offsets); /* back into insertion order */
    for (size_t i = 0; i < held; i++) {
        size_t size = record_bytes(b, &b->entries[i]);

        memmove(b->data + used_bytes, b->data + b->entries[i].offset, size);
        b->entries[i].offset = (uint32_t)used_bytes;
        used_bytes += size;
    }
    b->count = held;
    b->held = 0;
    shrink_to(b, used_bytes);
}

void batch_end(struct batch *b, uint64_t now_ns)
{
    uint64_t end_ns = b->cut_ns < b->began_ns ? b->cut_ns + 1 : b->began_ns;
    size_t bytes = 0;

    sort_by_time(b);
    b->held = 0;
    if (b->count == 0 || b->entries[b->count - 1].time_ns > now_ns)
        return;
    while (b->held < b->count && b->entries[b->count - b->held - 1].time_ns >= end_ns) {
        b->held++;
        bytes += record_bytes(b, &b->entries[b->count - b->held]);
    }
    if (bytes > b->max_bytes / 4)
        b->held = 0;
}

size_t batch_count(const struct batch *b)
{
    return b->count - b->held;
}

int batch_add_bytes(struct batch *b, const void *data, size_t size)
{
    const struct record_header *header = data;

    return size >= sizeof(*header) && header->size_bytes <= size ? batch_add(b, header) : -EBADMSG;
}

void batch_cut_at(struct batch *b, uint64_t newest_ns)
{
    if (newest_ns < b->cut_ns)
        b->cut_ns = newest_ns;
}

bool batch_takes_samples(const struct batch *b)
{
    return batch_room_bytes(b) >= b->max_bytes / 4 + RECORD_MAX_BYTES;
}

size_t batch_room_bytes(const struct batch *b)
{
    return b->max_bytes - b->used_bytes;
}

size_t batch_max_bytes(const struct batch *b)
{
    return b->max_bytes;
}

const struct record_header *batch_get(const struct batch *b, size_t i)
{
    assert(i < b->count);
    return (const struct record_header *)(b->data + b->entries[i].offset);
}

void batch_clear(struct batch *b)
{
    shrink_to(b, 0);
    b->count = b->held = 0;
    if (b->capacity > 65536) {
        free(b->entries);
        b->entries = NULL;
        b->capacity = 0;
    }
}
