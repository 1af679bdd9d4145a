/* Overlapping mappings, forks, and changes after them: after every step the list is sorted, disjoint, and equal to a
 * plain array of pages. */
#include "resolve/proc/paths.h"
#include "resolve/process/image.h"

#include <stdlib.h>
#include <string.h>

#define PAGES 256

static void check(const struct image *image, const uint8_t *pages)
{
    uint8_t seen[PAGES] = {0};
    for (size_t i = 0; i < image->count; i++) {
        const struct process_mapping *m = &image->mappings[i];
        if (m->end <= m->start || (i > 0 && m->start < image->mappings[i - 1].end) || m->end > PAGES)
            abort();
        /* The offset identifies the mapping of a page: started at `offset - start`, a multiple of 1024. Code without a
         * file has none. */
        for (uint64_t page = m->start; page < m->end; page++)
            seen[page] = m->object ? (uint8_t)((m->file_offset - m->start) / 1024) : 255;
    }
    if (memcmp(seen, pages, PAGES) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct objects *objects = NULL;
    struct paths paths = {0};
    struct image *image = image_new(), *child = NULL;
    uint8_t pages[PAGES] = {0}, child_pages[PAGES] = {0};
    if (!image || objects_new(1, &objects) < 0)
        return 0;
    objects_set_inline(objects);
    image_live(image, 1);
    for (size_t i = 0; i + 3 <= size && i < 3 * 200; i += 3) {
        const unsigned start = data[i], kind = data[i + 2] % 250 + 1;
        unsigned end = start + data[i + 1] % 32 + 1;
        if (end > PAGES)
            end = PAGES;
        if (kind == 250) { /* a fork; the child keeps the previous state */
            if (child)
                image_live(child, -1);
            image_unref(child);
            child = image_ref(image);
            image_live(child, 1);
            memcpy(child_pages, pages, sizeof(pages));
            continue;
        }
        struct process_mapping m = {.start = start, .end = end, .file_offset = start + kind * 1024};
        const struct object_sight sight = {.path = kind % 5 ? "/no/such/file" : "//anon",
                                           .build_id = (const uint8_t *)&kind,
                                           .build_id_bytes = sizeof(kind)};
        if (objects_get(objects, &sight, &m.object) == 0 &&
            !(m.path = paths_get(&paths, kind % 2 ? "/a" : "/b")))
            abort();
        struct image *own = image_own(image, true);
        if (!own)
            break;
        image = own;
        image_map(image, &m);
        memset(pages + start, m.object ? (int)kind : 255, end - start);
        check(image, pages);
        if (child)
            check(child, child_pages);
    }
    if (child)
        image_live(child, -1);
    image_live(image, -1);
    image_unref(child);
    image_unref(image);
    objects_trim(objects, 1, UINT64_MAX);
    struct objects_stats figures;
    objects_stats(objects, &figures);
    if (figures.objects != 0 || paths.by_text || paths.bytes != 0) /* every reference was released */
        abort();
    objects_free(objects);
    return 0;
}
