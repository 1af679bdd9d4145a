/* Executable mappings; see image.h. A sorted array: a process has a few dozen mappings, they seldom change, and
 * readers search or copy all of them. */
#include "resolve/process/image.h"

#include "resolve/proc/paths.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct image *image_new(void)
{
    struct image *image = calloc(1, sizeof(*image));
    if (image)
        image->references = 1;
    return image;
}

struct image *image_ref(struct image *image)
{
    if (image)
        image->references++;
    return image;
}

static void retain(const struct process_mapping *m)
{
    if (m->object)
        objects_retain(m->object);
    path_retain(m->path);
}

static void release(const struct process_mapping *m, bool live)
{
    if (!m->object)
        return;
    if (live)
        objects_live(m->object, -1);
    objects_release(m->object);
    path_release(m->path);
}

void image_unref(struct image *image)
{
    assert(!image || image->references > 0);
    if (!image || --image->references > 0)
        return;
    for (size_t i = 0; i < image->count; i++)
        release(&image->mappings[i], image->live > 0);
    free(image->mappings);
    path_release(image->executable);
    free(image);
}

void image_live(struct image *image, int change)
{
    if (!image)
        return;
    assert(change > 0 || image->live > 0);
    const bool before = image->live > 0;
    image->live += (unsigned)change;
    if (before == (image->live > 0))
        return;
    for (size_t i = 0; i < image->count; i++)
        if (image->mappings[i].object)
            objects_live(image->mappings[i].object, change);
}

struct image *image_own(struct image *image, bool was_live)
{
    if (image->references == 1)
        return image;
    struct image *own = image_new();
    if (!own)
        return NULL;
    own->executable = path_retain(image->executable);
    own->capacity = image->count + 8;
    own->mappings = malloc(own->capacity * sizeof(*own->mappings));
    if (!own->mappings) {
        image_unref(own);
        return NULL;
    }
    for (size_t i = 0; i < image->count; i++) {
        own->mappings[i] = image->mappings[i];
        retain(&own->mappings[i]);
    }
    own->count = image->count;
    own->full = image->full;
    if (was_live) {
        image_live(own, 1);
        image_live(image, -1);
    }
    image_unref(image);
    return own;
}

/* Index of the first mapping that ends after `address`. */
static size_t first_after(const struct image *image, uint64_t address)
{
    size_t low = 0, high = image->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (image->mappings[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int reserve(struct image *image, size_t count)
{
    if (count <= image->capacity)
        return 0;
    size_t capacity = image->capacity ? image->capacity * 2 : 8;
    struct process_mapping *mappings = realloc(image->mappings, capacity * sizeof(*mappings));
    if (!mappings)
        return -ENOMEM;
    image->mappings = mappings;
    image->capacity = capacity;
    return 0;
}

static void insert_at(struct image *image, size_t at, const struct process_mapping *mapping)
{
    memmove(&image->mappings[at + 1], &image->mappings[at], (image->count - at) * sizeof(*image->mappings));
    image->mappings[at] = *mapping;
    image->count++;
}

/* Removes [start, end). Needs capacity for one more mapping, because a hole may split one in two. */
static void unmap(struct image *image, uint64_t start, uint64_t end)
{
    size_t i = first_after(image, start);
    if (i < image->count && image->mappings[i].start < start) {
        struct process_mapping *m = &image->mappings[i];
        struct process_mapping tail = *m;
        m->end = start;
        i++;
        if (tail.end > end) {
            tail.file_offset += end - tail.start;
            tail.start = end;
            retain(&tail);
            if (tail.object && image->live)
                objects_live(tail.object, 1);
            insert_at(image, i, &tail);
            return;
        }
    }
    size_t gone = i;
    while (gone < image->count && image->mappings[gone].end <= end)
        release(&image->mappings[gone++], image->live > 0);
    memmove(&image->mappings[i], &image->mappings[gone], (image->count - gone) * sizeof(*image->mappings));
    image->count -= gone - i;
    if (i < image->count && image->mappings[i].start < end) {
        struct process_mapping *m = &image->mappings[i];
        m->file_offset += end - m->start;
        m->start = end;
    }
}

/* Anonymous code grows in adjacent pieces (JIT compilers): merges a mapping with its neighbours. */
static bool join_anonymous(struct image *image, size_t at, const struct process_mapping *mapping)
{
    if (mapping->object)
        return false;
    struct process_mapping *before = at > 0 ? &image->mappings[at - 1] : NULL;
    struct process_mapping *after = at < image->count ? &image->mappings[at] : NULL;
    const bool touches_before = before && !before->object && before->end == mapping->start;
    const bool touches_after = after && !after->object && after->start == mapping->end;
    if (touches_before && touches_after) {
        before->end = after->end;
        memmove(after, after + 1, (image->count - at - 1) * sizeof(*after));
        image->count--;
    } else if (touches_before) {
        before->end = mapping->end;
    } else if (touches_after) {
        after->start = mapping->start;
    }
    return touches_before || touches_after;
}

int image_map(struct image *image, const struct process_mapping *mapping)
{
    const bool full = image->count + 2 > IMAGE_MAPPINGS_MAX;
    int r = full ? -ENOSPC : reserve(image, image->count + 2);
    if (r < 0 || mapping->end <= mapping->start) {
        image->full |= full;
        release(mapping, false);
        return r < 0 ? r : -EINVAL;
    }
    unmap(image, mapping->start, mapping->end);
    size_t at = first_after(image, mapping->start);
    if (join_anonymous(image, at, mapping))
        return 0;
    insert_at(image, at, mapping);
    if (mapping->object && image->live)
        objects_live(mapping->object, 1);
    return 0;
}

size_t image_bytes(const struct image *image)
{
    return sizeof(*image) + image->capacity * sizeof(*image->mappings);
}

const struct process_mapping *process_mapping_find(const struct process *process, uint64_t address)
{
    size_t low = 0, high = process->mapping_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (process->mappings[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < process->mapping_count && process->mappings[low].start <= address ? &process->mappings[low] : NULL;
}
