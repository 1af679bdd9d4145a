/* Sorts traces by id; see trace_order.h. */
#include "trace/aggregate/trace_order.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/mman.h>

struct place {
    uint64_t file, id, offset;
};

struct trace_order {
    FILE *traces, *index; /* unnamed temporary files */
    uint64_t count, offset, next;
    struct place *places; /* the mapped index: page cache instead of heap memory */
    struct triton_moment *moments;
    uint32_t moment_capacity;
};

static int open_unnamed(FILE **ret)
{
    const char *directory = getenv("TMPDIR");
    char path[PATH_MAX];
    if (!directory || !*directory)
        directory = "/var/tmp";
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) { /* O_TMPFILE is not supported by every file system */
        if (snprintf(path, sizeof(path), "%s/sonde-XXXXXX", directory) >= (int)sizeof(path))
            return -ENAMETOOLONG;
        fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0)
            return -errno;
        unlink(path);
    }
    *ret = fdopen(fd, "w+");
    if (*ret)
        return 0;
    close(fd);
    return -ENOMEM;
}

int trace_order_new(struct trace_order **ret)
{
    _cleanup_(trace_order_freep) struct trace_order *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    int r = open_unnamed(&o->traces);
    if (r == 0)
        r = open_unnamed(&o->index);
    if (r < 0)
        return r;
    *ret = take_ptr(o);
    return 0;
}

static void unmap(struct trace_order *o)
{
    if (o->places)
        munmap(o->places, o->count * sizeof(*o->places));
    o->places = NULL;
}

void trace_order_free(struct trace_order *o)
{
    if (!o)
        return;
    unmap(o);
    fclosep(&o->traces);
    fclosep(&o->index);
    free(o->moments);
    free(o);
}

int trace_order_add(struct trace_order *o, uint64_t file, const struct triton_trace *trace)
{
    struct place place = {file, trace->id, o->offset};
    struct triton_trace bare = *trace;
    bare.activities = NULL;
    bare.facts = NULL;
    bare.request_id = (struct triton_text){0};
    bare.moments = NULL;
    if (fwrite(&place, sizeof(place), 1, o->index) != 1 || fwrite(&bare, sizeof(bare), 1, o->traces) != 1 ||
        fwrite(trace->moments, sizeof(*trace->moments), trace->moment_count, o->traces) != trace->moment_count)
        return errno ? -errno : -EIO;
    o->offset += sizeof(bare) + trace->moment_count * sizeof(*trace->moments);
    o->count++;
    return 0;
}

static bool is_before(const struct place *a, const struct place *b)
{
    return a->file != b->file ? a->file < b->file : a->id < b->id;
}

/* Shell sort: in place, because qsort may allocate as much memory again, and fast for nearly sorted ids, as servers
 * write them. */
static void sort_places(struct place *places, uint64_t count)
{
    uint64_t gap = 1;
    while (gap < count / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (uint64_t i = gap; i < count; i++) {
            struct place moving = places[i];
            uint64_t at = i;
            for (; at >= gap && is_before(&moving, &places[at - gap]); at -= gap)
                places[at] = places[at - gap];
            places[at] = moving;
        }
}

int trace_order_rewind(struct trace_order *o)
{
    o->next = 0;
    if (o->places || o->count == 0)
        return 0;
    if (fflush(o->index) != 0 || fflush(o->traces) != 0)
        return -errno;
    void *map = mmap(NULL, o->count * sizeof(*o->places), PROT_READ | PROT_WRITE, MAP_SHARED, fileno(o->index), 0);
    if (map == MAP_FAILED)
        return -errno;
    o->places = map;
    sort_places(o->places, o->count);
    o->offset = UINT64_MAX; /* the position of the stream is unknown */
    return 0;
}

int trace_order_next(struct trace_order *o, struct triton_trace *ret)
{
    if (o->next == o->count)
        return 0;
    const struct place *place = &o->places[o->next++];
    struct triton_trace trace;
    if (place->offset != o->offset && fseeko(o->traces, (off_t)place->offset, SEEK_SET) < 0)
        return -errno;
    if (fread(&trace, sizeof(trace), 1, o->traces) != 1)
        return -EIO;
    if (trace.moment_count > o->moment_capacity) {
        struct triton_moment *moments = realloc(o->moments, trace.moment_count * sizeof(*moments));
        if (!moments)
            return -ENOMEM;
        o->moments = moments;
        o->moment_capacity = trace.moment_count;
    }
    if (fread(o->moments, sizeof(*o->moments), trace.moment_count, o->traces) != trace.moment_count)
        return -EIO;
    trace.moments = o->moments;
    o->offset = place->offset + sizeof(trace) + trace.moment_count * sizeof(*o->moments);
    *ret = trace;
    return 1;
}
