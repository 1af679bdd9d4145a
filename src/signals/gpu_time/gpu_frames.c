/* See gpu_frames.h. */
#include "signals/gpu_time/gpu_frames.h"

#include "base/cleanup.h"
#include "base/starts_with.h"
#include "resolve/sample/samples.h"
#include "resolve/symbols/demangle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NAMES 1024 /* of the cache */
#define GRAPH "[CUDA graph]"

struct gpu_readable_name {
    char *mangled, *readable; /* NULL: unused */
};

static const char *const work_names[] = {
    [GPU_WORK_KERNEL] = "kernel", [GPU_WORK_NCCL] = "nccl", [GPU_WORK_COPY] = "copy", [GPU_WORK_SET] = "memset"};
_Static_assert(array_size(work_names) == GPU_WORK_COUNT, "each kind of work has a name");

static size_t place_of(const char *mangled)
{
    return XXH3_64bits(mangled, strlen(mangled)) % NAMES;
}

static void keep_name(struct gpu_readable_name *n, const char *mangled, const char *readable)
{
    free(n->mangled);
    free(n->readable);
    n->mangled = strdup(mangled);
    n->readable = strdup(readable);
}

/* The demangled name; `mangled` itself where it is not known at present. */
static const char *readable_name(struct gpu_frames *f, struct sample_resolver *resolver, const char *mangled)
{
    char readable[DEMANGLED_MAX];
    if (!demangle_is_mangled(mangled))
        return mangled;
    if (!f->names)
        f->names = calloc(NAMES, sizeof(*f->names));
    if (!f->names)
        return mangled;
    struct gpu_readable_name *n = &f->names[place_of(mangled)];
    if (n->mangled && n->readable && strcmp(n->mangled, mangled) == 0)
        return n->readable;
    if (sample_demangle(resolver, mangled, readable) < 0)
        return mangled;
    keep_name(n, mangled, readable);
    return n->readable ? n->readable : mangled;
}

/* Kernels as they are called; copies and memsets in brackets, because they are no functions. */
static struct frame leaf_frame(struct gpu_frames *f, struct sample_resolver *resolver, const struct gpu_sum *sum)
{
    const bool is_kernel = sum->work == GPU_WORK_KERNEL || sum->work == GPU_WORK_NCCL;
    snprintf(f->leaf, sizeof(f->leaf), is_kernel ? "%.*s" : "[%.*s]", (int)sum->name_bytes, (const char *)(sum + 1));
    const char *name = is_kernel ? readable_name(f, resolver, f->leaf) : f->leaf;
    struct frame frame = frame_of_text(FRAME_GPU, name[0] ? name : "[unnamed kernel]");
    if (name != f->leaf)
        frame.system_name = f->leaf;
    return frame;
}

static bool is_observer(const struct frame *frame)
{
    const char *slash = strrchr(frame->mapping, '/'), *file = slash ? slash + 1 : frame->mapping;
    return frame->kind == FRAME_NATIVE && (starts_with(file, "libsonde-cuda.so") || starts_with(file, "libcupti.so"));
}

/* In place of labels of the same names that the program set. */
static bool is_gpu_label(const struct sample_label *label)
{
    return strcmp(label->key, "gpu.device") == 0 || strcmp(label->key, "gpu.work") == 0;
}

static int compare_labels(const void *a, const void *b)
{
    return strcmp(((const struct sample_label *)a)->key, ((const struct sample_label *)b)->key);
}

static void put_labels(struct gpu_frames *f, const struct gpu_sum *sum, struct sample *s)
{
    size_t count = 2;
    snprintf(f->device, sizeof(f->device), "%u", sum->device);
    f->labels[0] = (struct sample_label){"gpu.device", f->device};
    f->labels[1] = (struct sample_label){"gpu.work", work_names[sum->work]};
    for (size_t i = 0; i < s->label_count && count < GPU_FRAMES_LABELS_MAX; i++)
        if (!is_gpu_label(&s->labels[i]))
            f->labels[count++] = s->labels[i];
    qsort(f->labels, count, sizeof(*f->labels), compare_labels);
    s->labels = f->labels;
    s->label_count = count;
}

static int reserve(struct gpu_frames *f, size_t count)
{
    if (count <= f->capacity)
        return 0;
    struct frame *frames = reallocarray(f->frames, count, sizeof(*frames));
    if (!frames)
        return -ENOMEM;
    f->frames = frames;
    f->capacity = count;
    return 0;
}

int gpu_frames_put(struct gpu_frames *f, struct sample_resolver *resolver, const struct gpu_sum *sum,
                   const char *without, struct sample *s)
{
    size_t skipped = 0, count = 0;
    while (!without && skipped < s->frame_count && is_observer(&s->frames[skipped]))
        skipped++;
    const size_t of_launch = without ? 0 : s->frame_count - skipped;
    int r = reserve(f, of_launch + 3);
    if (r < 0)
        return r;
    f->frames[count++] = leaf_frame(f, resolver, sum);
    if (sum->is_graph)
        f->frames[count++] = frame_of_text(FRAME_GPU, GRAPH);
    if (without)
        f->frames[count++] = frame_of_text(FRAME_TRUNCATED, without);
    if (of_launch)
        memcpy(f->frames + count, s->frames + skipped, of_launch * sizeof(*f->frames));
    s->frames = f->frames;
    s->frame_count = count + of_launch;
    s->value = sum->ns;
    s->count = sum->count;
    s->type = &sample_type_gpu;
    put_labels(f, sum, s);
    return 0;
}

void gpu_frames_clear(struct gpu_frames *f)
{
    for (size_t i = 0; f->names && i < NAMES; i++) {
        free(f->names[i].mangled);
        free(f->names[i].readable);
    }
    free(f->names);
    free(f->frames);
    *f = (struct gpu_frames){0};
}
